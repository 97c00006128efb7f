//! Variables of the environment that look like settings and are none.

use super::{file, settings};

/// Variables that are no settings.
const OTHERS: [&str; 4] = [
    "PUNCTUAL_CONFIG",
    "PUNCTUAL_JOIN_TOKEN",
    "PUNCTUAL_TOKEN",
    // Tells tests which program to run.
    "PUNCTUAL_BIN",
];

const PREFIX: &str = "PUNCTUAL_";

/// What is wrong with each variable that is not known. Programs that a worker runs get variables of their own, so inside of a job
/// nothing is.
pub(crate) fn unknown(names: &[String]) -> Vec<String> {
    if names.iter().any(|name| name == "PUNCTUAL_JOB_ID") {
        return Vec::new();
    }
    let mut unknown: Vec<_> = names.iter().filter(|name| name.starts_with(PREFIX) && !is_known(name)).collect();
    unknown.sort();
    unknown
        .into_iter()
        .map(|name| {
            let key = name[PREFIX.len()..].to_ascii_lowercase();
            match file::nearest(&key) {
                Some(nearest) => {
                    format!("{name} in the environment is not a setting; did you mean {}?", nearest.variable())
                }
                None => format!("{name} in the environment is not a setting"),
            }
        })
        .collect()
}

fn is_known(name: &str) -> bool {
    settings().any(|setting| setting.variable() == name)
        || OTHERS.contains(&name)
        || name.starts_with("PUNCTUAL_TEST_")
        || is_of_kubernetes(name)
}

/// Kubernetes tells every container of the services of its namespace: `PUNCTUAL_SERVICE_HOST` and `PUNCTUAL_PORT_8020_TCP_ADDR`
/// of one that is called `punctual`.
fn is_of_kubernetes(name: &str) -> bool {
    name.ends_with("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
        || name.ends_with("_PORT")
        || name.contains("_PORT_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_variables_are_named_with_the_nearest_setting() {
        let unknown = |names: &[&str]| unknown(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(
            unknown(&["PUNCTUAL_LISTN", "HOME", "PUNCTUAL_FLUX_CAPACITOR"]),
            [
                "PUNCTUAL_FLUX_CAPACITOR in the environment is not a setting",
                "PUNCTUAL_LISTN in the environment is not a setting; did you mean PUNCTUAL_LISTEN?"
            ]
        );
        for known in [
            "PUNCTUAL_LISTEN",
            "PUNCTUAL_CONFIG",
            "PUNCTUAL_TOKEN",
            "PUNCTUAL_TOKEN_FILE",
            "PUNCTUAL_TEST_POSTGRES",
            "PUNCTUAL_SERVICE_HOST",
            "PUNCTUAL_SERVICE_PORT_HTTP",
            "PUNCTUAL_PORT",
            "PUNCTUAL_PORT_8020_TCP_ADDR",
            "PUNCTUALITY",
        ] {
            assert_eq!(unknown(&[known]), [""; 0], "{known}");
        }
        assert_eq!(unknown(&["PUNCTUAL_JOB_ID", "PUNCTUAL_TASK"]), [""; 0], "inside of a job");
    }
}
