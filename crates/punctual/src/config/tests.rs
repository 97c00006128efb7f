use std::io::Write;

use super::*;

fn load(flags: &[(&'static str, String)], environment: &[(&str, &str)], file: &str) -> anyhow::Result<Config> {
    let mut written = tempfile::NamedTempFile::new().unwrap();
    written.write_all(file.as_bytes()).unwrap();
    let lookup = |name: &str| environment.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
    let file = Some(written.path().to_owned());
    Config::load(&Sources { flags, environment: &lookup, file, untrusted: Untrusted::Refuse })
}

pub(super) fn shown(config: &Config, key: &str) -> String {
    config.shown(settings().find(|setting| setting.key == key).unwrap())
}

#[test]
fn flags_come_before_the_environment_before_the_file_before_the_default() {
    let flag = [("slots", "1".to_owned())];
    let environment = [("PUNCTUAL_SLOTS", "2")];
    for (flags, environment, file, text, origin) in [
        (&flag[..], &environment[..], "slots = 3", "1", "flag"),
        (&[], &environment[..], "slots = 3", "2", "environment PUNCTUAL_SLOTS"),
        (&[], &[], "slots = 3", "3", "file"),
        (&[], &[], "", "64", "default"),
    ] {
        let config = load(flags, environment, file).unwrap();
        let value = config.value("slots");
        assert_eq!(value.text, text);
        assert!(value.origin.to_string().starts_with(origin), "{}", value.origin);
    }
}

#[test]
fn lists_and_tables_read_the_same_from_every_source() {
    let file = "queues = [\"a\", \"b\"]\nlabels = { zone = \"eu\", disk = \"ssd\" }";
    let from_file = WorkerSettings::new(&load(&[], &[], file).unwrap()).unwrap();
    let variables = [("PUNCTUAL_QUEUES", "a, b"), ("PUNCTUAL_LABELS", "zone=eu,disk=ssd")];
    let from_environment = WorkerSettings::new(&load(&[], &variables, "").unwrap()).unwrap();
    assert_eq!(from_file.queues, ["a", "b"]);
    assert_eq!(from_file.queues, from_environment.queues);
    assert_eq!(from_file.labels, from_environment.labels);
}

#[test]
fn the_defaults_are_valid_and_are_those_of_the_docs() {
    let config = load(&[], &[], "").unwrap();
    let server = ServerSettings::new(&config).unwrap();
    assert_eq!(server.listen.to_string(), "127.0.0.1:8020");
    assert_eq!(server.durability, Durability::Full);
    assert_eq!(server.missed_after, punctual_core::shard::Config::default().schedule_grace);
    assert_eq!(server.retention, punctual_core::Span::from_secs(7 * 86_400));
    let worker = WorkerSettings::new(&config).unwrap();
    assert_eq!(worker.spool_dir, PathBuf::from(".punctual/spool"));
    insta::assert_snapshot!(help());
}

#[test]
fn unknown_keys_are_refused_with_the_nearest_known_one() {
    for (file, answer) in [
        ("heartbeet = \"5s\"", "did you mean `heartbeat`?"),
        ("data-dir = \"x\"", "did you mean `data_dir`?"),
        ("worker_dead_afer = \"5s\"", "did you mean `worker_dead_after`?"),
        ("colour = \"never\"", "did you mean `color`?"),
        ("flux_capacitor = 1", "there is no setting `flux_capacitor`"),
        ("slots = 2020-01-01", "`slots` has a value of the wrong type"),
        ("slots = ", "line 1 is not valid TOML"),
    ] {
        let refused = load(&[], &[], file).unwrap_err().to_string();
        assert!(refused.contains(answer), "{refused}");
    }
}

#[test]
fn secrets_have_no_flag_and_no_place_in_a_file_of_the_current_folder() {
    for setting in settings().filter(|setting| setting.secrecy == Secrecy::Secret) {
        assert!(setting.flag.is_none(), "{}", setting.key);
        assert_eq!(setting.local_file, setting::LocalFile::CannotSet, "{}", setting.key);
    }
}

#[test]
fn a_switch_in_the_file_may_be_a_boolean() {
    for written in ["allow_commands = true", "allow_commands = \"true\""] {
        assert!(WorkerSettings::new(&load(&[], &[], written).unwrap()).unwrap().allow_commands, "{written}");
    }
}

#[test]
fn values_out_of_range_are_refused_and_say_where_they_were_written() {
    for (variable, value, answer) in [
        ("PUNCTUAL_LISTEN", "0.0.0.0:8020", "without TLS"),
        ("PUNCTUAL_LISTEN", "[::]:8020", "without TLS"),
        ("PUNCTUAL_LISTEN", "192.168.1.7:8020", "without TLS"),
        ("PUNCTUAL_LISTEN", "8020", "is not an address"),
        ("PUNCTUAL_SHARDS", "0", "is not a number from 1 to 1024"),
        ("PUNCTUAL_HEARTBEAT", "soon", "setting heartbeat (environment PUNCTUAL_HEARTBEAT): `soon` is not a duration"),
        ("PUNCTUAL_HEARTBEAT", "15s", "less than two heartbeats"),
        ("PUNCTUAL_DURABILITY", "none", "none of full, normal"),
        ("PUNCTUAL_SLOTS", "many", "is not a number from 1"),
        ("PUNCTUAL_LABELS", "eu", "is not a label"),
        ("PUNCTUAL_QUEUES", "a,,b", "a queue needs a name"),
        ("PUNCTUAL_DATA_DIR", "", "a folder needs a name"),
        ("PUNCTUAL_ROLES", "api,clock", "`clock` is neither api nor scheduler"),
        ("PUNCTUAL_ADVERTISE", "127.0.0.1:8020", "is not an address"),
        ("PUNCTUAL_ADVERTISE", "http://me@h/", "is not an address"),
        ("PUNCTUAL_DATABASE", "s3cret", "is neither a URL"),
        ("PUNCTUAL_LEASE_TTL", "0s", "is not between 1s and 10m"),
        ("PUNCTUAL_MISSED_AFTER", "999ms", "is not between 1s and 1h"),
        ("PUNCTUAL_MISSED_AFTER", "2h", "is not between 1s and 1h"),
        ("PUNCTUAL_PUBLIC_URL", "punctual.example.com", "is not an address"),
        ("PUNCTUAL_PUBLIC_URL", "https://me@example.com", "is not an address"),
    ] {
        let config = load(&[], &[(variable, value)], "").unwrap();
        let server = ServerSettings::new(&config).map(drop);
        let refused = server.and_then(|()| WorkerSettings::new(&config).map(drop)).expect_err(value);
        assert!(refused.to_string().contains(answer), "{refused}");
    }
}

#[test]
fn a_password_is_refused_where_everyone_can_read_it() {
    let flag = [("database", "postgres://me:s3cret@h/p".to_owned())];
    let refused = ServerSettings::new(&load(&flag, &[], "").unwrap()).unwrap_err().to_string();
    assert!(refused.contains("password on the command line") && !refused.contains("s3cret"), "{refused}");
    let config = load(&[], &[("PUNCTUAL_DATABASE", "postgres://me:s3cret@h/p")], "").unwrap();
    let settings = ServerSettings::new(&config).unwrap();
    assert_eq!((settings.shards, settings.database.usual_shards()), (None, 64));
    assert!(!format!("{settings:?}").contains("s3cret"));
    assert_eq!(shown(&config, "database"), "postgres://me:***@h/p");
}

#[test]
fn this_machine_is_a_place_to_listen_on() {
    for listen in ["127.0.0.1:0", "127.0.0.2:80", "[::1]:8020", "localhost:8020"] {
        let config = load(&[("listen", listen.to_owned())], &[], "").unwrap();
        assert!(ServerSettings::new(&config).is_ok(), "{listen}");
    }
}

#[test]
fn a_file_that_was_asked_for_must_exist() {
    let file = Some("/nowhere/punctual.toml".into());
    let sources = Sources { flags: &[], environment: &|_| None, file, untrusted: Untrusted::Refuse };
    assert!(Config::load(&sources).unwrap_err().to_string().contains("cannot read /nowhere/punctual.toml"));
}
