use clap::Parser;
use punctual_core::task::DeliveryMode;
use serde_json::{Value, json};

use super::*;
use crate::output::Output;

#[derive(Parser)]
struct Only {
    #[command(flatten)]
    args: CrontabArgs,
}

const CRONTAB: &str = "\
# web server
SHELL=/bin/bash
MAILTO=ops@example.com
PATH=/nowhere/bin
*/5 * * * * curl -fsS -m 10 https://example.org/health?deep=1 >/dev/null 2>&1
30 2 * * MON-FRI /nowhere/backup --full
0 4 * * 0 cd /srv/app && ./clean.sh | logger
CRON_TZ=America/New_York
@daily wget -qO- http://example.org/daily >> /var/log/daily.log
15 3 1 * * mail -s report root%Dear all,%Bye
@reboot /usr/local/bin/start
61 * * * * x
@every 90s curl -d 'a=b' http://example.org/beat
";

fn read(text: &str, flags: &[&str]) -> (Vec<Line>, Vec<Problem>) {
    let Reading { lines, problems, .. } = reading(text, flags);
    (lines, problems)
}

fn reading(text: &str, flags: &[&str]) -> Reading {
    let args = Only::parse_from([&["x", "--zone", "Europe/Berlin"], flags].concat()).args;
    // Two weeks before the clocks of New York go back, and one before those of Berlin do.
    let now = Timestamp::parse("2026-10-18T12:00:00Z").expect("a time");
    args.read(&args.parse(text), &Known::default(), now).expect("it has lines")
}

fn shown(text: &str, flags: &[&str], columns: Option<usize>) -> String {
    let (lines, problems) = read(text, flags);
    let rules = mail::rules("crontab-", &lines);
    Report::new(&lines, &problems, &rules, None).text(&Output::plain(columns))
}

fn schedules(text: &str, flags: &[&str]) -> Vec<Value> {
    let (lines, _) = read(text, flags);
    lines.iter().map(|line| serde_json::to_value(line.schedule()).expect("JSON")).collect()
}

#[test]
fn a_dry_run_says_of_each_line_what_becomes_of_it() {
    let texts = [None, Some(140), Some(80)].map(|columns| shown(CRONTAB, &[], columns));
    insta::assert_snapshot!(texts.join("\n"));
    let widest = |text: &str| text.lines().filter(|line| !line.contains(": ")).map(|line| line.chars().count()).max();
    assert!(widest(&texts[2]).is_some_and(|columns| columns <= 80), "{}", texts[2]);
}

#[test]
fn lines_for_this_machine_go_to_a_task_of_ones_own() {
    let (lines, problems) = read("SHELL=/bin/sh\n15 3 1 * * mail -s hi root%Dear all,%Bye\n", &["--task", "host"]);
    assert!(problems.is_empty(), "{problems:?}");
    let schedule = serde_json::to_value(lines[0].schedule()).expect("JSON");
    assert_eq!(schedule["task"], "host");
    assert_eq!(
        schedule["input"],
        json!({ "command": "mail -s hi root", "stdin": "Dear all,\nBye\n", "environment": { "SHELL": "/bin/sh" } })
    );
    let system = schedules("* * * * * root a | b", &["--system", "--task", "host"]);
    assert_eq!(system[0]["input"]["user"], "root");
    assert_eq!(system[0]["input"]["command"], "a | b");
}

#[test]
fn with_a_shell_lines_run_as_cron_ran_them() {
    let crontab = "SHELL=/bin/bash\nHOME=/srv\nMAILTO=root\nPLACE=here\n\
                   30 2 * * * root mail -s hi ops%Dear all,%Bye\n@daily root curl h\n@daily root curl -k https://h\n";
    let (lines, problems) = read(crontab, &["--system", "--shell"]);
    let spec = |line: &Line| match &line.becomes {
        Ok(Becomes::Command(command)) => serde_json::to_value(line::command(command)).expect("JSON"),
        other => panic!("{other:?}"),
    };
    let mail = spec(&lines[0]);
    assert_eq!(
        mail["run"]["command"],
        json!({
            "line": "mail -s hi ops", "shell": "/bin/bash", "stdin": "Dear all,\nBye\n", "directory": "/srv",
            "environment": { "HOME": "/srv", "PLACE": "here" }, "grace": "PT10S",
        })
    );
    assert_eq!((&mail["retry"]["max"], &mail["timeout"]), (&json!(0), &json!("PT24H")));
    assert_eq!(mail["delivery"], "at_most_once", "a worker that dies is no reason to start it again");
    assert!(matches!(lines[1].becomes, Ok(Becomes::Call(_))), "a call stays a call");
    assert_eq!(spec(&lines[2])["run"]["command"]["line"], "curl -k https://h");
    let of_user = problems.iter().filter(|problem| problem.message == "it runs as the worker's user, not as root");
    assert_eq!(of_user.count(), 2, "{problems:?}");
}

#[test]
fn schedules_keep_crons_own_habits() {
    let [cron, every] = &schedules("30 2 * * MON-FRI curl h\n@every 90s curl h\n", &["--prefix", "web-"])[..] else {
        panic!("two lines")
    };
    let name = cron["name"].as_str().expect("a name");
    assert!(name.starts_with("web-curl-"), "{name}");
    assert_eq!(
        (&cron["task"], &cron["cron"], &cron["zone"]),
        (&json!(name), &json!("30 2 * * 1-5"), &json!("Europe/Berlin"))
    );
    assert_eq!(cron["catch_up"], json!({ "mode": "none" }));
    assert_eq!((&every["every"], &every["cron"]), (&json!("PT1M30S"), &Value::Null));
    assert_eq!(every["name"], json!(format!("{name}-2")), "the same command a second time");
}

#[test]
fn a_failure_is_tried_again_only_if_the_line_asks_for_it() {
    let (lines, _) = read("@daily curl h\n@daily curl --retry 3 -m 7200 h\n", &[]);
    let spec = |line: &Line| match &line.becomes {
        Ok(Becomes::Call(request)) => line::call(request),
        other => panic!("{other:?}"),
    };
    let (once, tried_again) = (spec(&lines[0]), spec(&lines[1]));
    assert_eq!((once.retry.max, once.delivery), (0, DeliveryMode::AtMostOnce));
    assert_eq!((tried_again.retry.max, tried_again.delivery), (3, DeliveryMode::AtLeastOnce));
    assert_eq!(tried_again.node_retry.max, 0, "curl does not survive its machine");
    assert_eq!(spec(&lines[1]).timeout.to_string(), "2h 1m", "the attempt outlives its request");
}

#[test]
fn each_list_of_addresses_makes_a_rule_for_the_lines_below_it() {
    let crontab = "@daily curl a\nMAILTO=\"Ops@example.com, dev@example.com,ops@example.com\"\n@daily curl b\n@daily cd / && ls\n\
                   MAILTO=\"\"\n@daily curl c\nMAILTO=root\n@daily curl d\nMAILTO=dev@example.com,ops@EXAMPLE.com\n@daily curl e\n\
                   MAILTO=other@example.com\n@daily curl f\n";
    let (lines, problems) = read(crontab, &[]);
    let told: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
    assert!(told.len() == 2 && told[1].starts_with("nobody mails to `root`"), "{told:?}");
    let rules = mail::rules("web-", &lines);
    let [both, other] = &rules[..] else { panic!("{rules:?}") };
    assert_eq!(
        (&both.to, &both.lines),
        (&vec!["Ops@example.com".to_owned(), "dev@example.com".to_owned()], &vec![3, 10])
    );
    assert_eq!(both.schedules, [lines[1].name.clone(), lines[5].name.clone()]);
    assert_eq!((&other.to, &other.lines), (&vec!["other@example.com".to_owned()], &vec![12]));
    assert!(both.name.starts_with("web-mail-") && both.name != other.name, "{rules:?}");
    let (again, _) = read("MAILTO=ops@example.com,dev@example.com\n@daily curl z\n", &[]);
    assert_eq!(mail::rules("web-", &again)[0].name, both.name, "the same list has the same rule");
}

#[test]
fn more_lines_than_a_rule_may_name_make_several_rules() {
    let lines: String = (0..150).map(|n| format!("@daily curl h/{n}\n")).collect();
    let (lines, _) = read(&format!("MAILTO=ops@example.com\n{lines}"), &[]);
    let rules = mail::rules("", &lines);
    assert_eq!(rules.iter().map(|rule| rule.schedules.len()).collect::<Vec<_>>(), [100, 50]);
    assert_eq!(rules[1].name, format!("{}-2", rules[0].name));
}

#[test]
fn a_line_without_a_name_makes_it_unknown_what_is_left_over() {
    for (crontab, extent) in [
        ("@daily curl a\nMAILTO=root\n@daily cd / && ls\n", Extent::Whole),
        ("@daily curl a\n61 2 * * * curl b\n", Extent::Part),
        ("@daily curl a\nCRON_TZ=Nowhere/Else\n@daily curl b\n", Extent::Part),
        ("MAILTO=\"ops@example.com\n@daily curl a\n", Extent::Part),
        ("MAILTO=a@b@c\n@daily curl a\n", Extent::Part),
        ("@daily curl a\n@daily root cd / && ls\n", Extent::Part),
    ] {
        let reading = reading(crontab, &[]);
        assert_eq!(reading.extent, extent, "{crontab}");
        assert_eq!(reading.keeps("crontab-another"), extent == Extent::Part, "{crontab}");
    }
}

#[test]
fn a_user_column_without_the_flag_is_refused() {
    for flags in [&[][..], &["--shell"], &["--task", "host"]] {
        let (lines, problems) = read("17 * * * * root cd / && run-parts --report /etc/cron.hourly\n", flags);
        assert!(matches!(lines[0].becomes, Err(Refusal::UserColumn(_))), "{flags:?} {lines:?}");
        assert!(problems[0].message.contains("import the file with --system"), "{flags:?} {problems:?}");
    }
    let (lines, _) = read("17 * * * * root cd / && ls\n", &["--shell", "--system"]);
    assert!(lines[0].becomes.is_ok(), "{lines:?}");
}

#[test]
fn a_line_that_wants_one_run_at_a_time_skips_the_others() {
    let [single, plain] = &schedules("@daily -s curl h\n@daily curl g\n", &[])[..] else { panic!("two lines") };
    assert_eq!((&single["overlap"], &plain["overlap"]), (&json!("skip"), &Value::Null));
}

#[test]
fn a_file_without_lines_is_refused() {
    let args = Only::parse_from(["x"]).args;
    let crontab = args.parse("# nothing\nA=b\n");
    let refused = args.read(&crontab, &Known::default(), Timestamp::EPOCH).expect_err("there is nothing");
    assert_eq!(refused.to_string(), "the crontab has no lines to import");
}
