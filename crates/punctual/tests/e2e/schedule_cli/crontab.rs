//! `punctual import crontab` from a file to jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::{Value, json};

use super::World;
use crate::binaries::compile_c;
use crate::harness::PUNCTUAL;

fn import(world: &World, crontab: &str, flags: &str) -> super::CommandOutput {
    std::fs::write(world.path().join("crontab"), crontab).expect("the file is written");
    world.say(&format!("import crontab crontab {flags}"))
}

/// What each rule mails about, by its name.
fn mailed(world: &World) -> BTreeMap<String, BTreeSet<String>> {
    let text = |value: &Value| value.as_str().expect("a name").to_owned();
    let list = world.json("notify list");
    let rules = list["notifications"].as_array().expect("a list").iter();
    let names = |rule: &Value| rule["schedules"].as_array().expect("names").iter().map(text).collect();
    rules.map(|rule| (text(&rule["name"]), names(rule))).collect()
}

fn lens(mailed: &BTreeMap<String, BTreeSet<String>>) -> Vec<usize> {
    mailed.values().map(BTreeSet::len).collect()
}

#[test]
fn an_imported_line_runs_and_a_second_import_makes_nothing_new() {
    let world = World::new();
    let program = compile_c(
        &world.home,
        "greet",
        "#include <stdio.h>\n#include <stdlib.h>\n\
         int main(int count, char **args) { printf(\"hello %s from %s\\n\", args[1], getenv(\"PLACE\")); }",
    );
    let lines = |minute: u8| {
        format!(
            "PLACE=cron\n{minute} 2 * * * {} 'dear world' >/dev/null\n@daily curl -fsS {}/livez\n",
            program.display(),
            world.server.url
        )
    };
    let first = import(&world, &lines(30), "");
    assert_eq!(first.code, Some(0), "{}", first.err);
    assert!(first.err.contains("2 schedules created, 0 replaced."), "{}", first.err);
    let second = import(&world, &lines(45), "");
    assert!(second.err.contains("0 schedules created, 2 replaced."), "{}", second.err);
    assert!(!second.err.contains("not in this crontab"), "{}", second.err);

    let names = world.ok("schedule list -o name");
    let [curl, greet] = names.lines().collect::<Vec<_>>()[..] else { panic!("{names}") };
    assert!(curl.starts_with("crontab-curl-") && greet.starts_with("crontab-greet-"), "{names}");
    let greeted = world.json(&format!("schedule get {greet}"));
    assert_eq!(greeted["definition"]["cron"], json!("45 2 * * *"), "the new time counts");
    assert_eq!(greeted["definition"]["catch_up"]["mode"], json!("none"));
    let without_curl = lines(45).lines().take(2).collect::<Vec<_>>().join("\n");
    let third = import(&world, &without_curl, "");
    let left = format!(
        "1 schedule with the prefix `crontab-` is not in this crontab: {curl} (at 00:00, every day, Europe/Berlin). \
         It keeps running."
    );
    assert!(third.err.contains(&left), "{}", third.err);
    let job = world.json(&format!("schedule run {curl} --wait"));
    assert_eq!(job["state"], json!("succeeded"), "{job}");
    let job = world.json(&format!("schedule run {greet} --wait"));
    assert_eq!(job["state"], json!("succeeded"), "{job}");
    let log = world.ok(&format!("logs {}", job["id"].as_str().expect("an id")));
    assert!(log.contains("hello dear world from cron"), "{log}");
}

/// The time of each schedule, by its name.
fn times(world: &World) -> BTreeMap<String, String> {
    let names = world.ok("schedule list -o name");
    let cron =
        |name: &str| world.json(&format!("schedule get {name}"))["definition"]["cron"].as_str().map(str::to_owned);
    names.lines().map(|name| (name.to_owned(), cron(name).expect("a cron expression"))).collect()
}

#[test]
fn a_command_on_two_lines_never_runs_twice_at_the_time_of_one() {
    let world = World::new();
    let both = "0 9 * * * curl http://h/x\n0 17 * * * curl http://h/x\n";
    let made = import(&world, both, "");
    assert_eq!(made.code, Some(0), "{}", made.err);
    let before = times(&world);
    let [(first, _), (second, _)] = before.iter().collect::<Vec<_>>()[..] else { panic!("{before:?}") };
    assert_eq!(before.values().collect::<Vec<_>>(), ["0 9 * * *", "0 17 * * *"]);

    let shown = import(&world, "0 17 * * * curl http://h/x\n", "--dry-run");
    assert!(shown.out.contains(second) && !shown.out.contains(&format!("{first} ")), "{}", shown.out);
    assert!(shown.err.contains(&format!("is not in this crontab: {first} ")), "{}", shown.err);
    let one = import(&world, "0 17 * * * curl http://h/x\n", "");
    assert_eq!(times(&world), before, "the line that stayed has its own schedule: {}", one.err);
    let told = format!("is not in this crontab: {first} (at 09:00, every day, Europe/Berlin). It keeps running.");
    assert!(one.err.contains(&told), "{}", one.err);
    world.ok(&format!("schedule delete {first}"));

    // A line that comes back is new, and one that moved keeps its schedule.
    import(&world, "0 9 * * * curl http://h/x\n0 18 * * * curl http://h/x\n", "");
    let after = times(&world);
    assert_eq!(
        after.values().collect::<BTreeSet<_>>(),
        BTreeSet::from([&"0 9 * * *".to_owned(), &"0 18 * * *".to_owned()])
    );
    assert!(after.contains_key(second) && after.len() == 2, "{after:?}");
}

#[test]
fn a_line_for_this_machine_reaches_a_task_of_ones_own() {
    let world = World::new();
    world.ok("task apply host --probe '{}'");
    let crontab = "30 2 * * * cd /srv && ls | mail root%Dear all,%Bye\n";
    let refused = import(&world, crontab, "");
    assert_eq!(refused.code, Some(2), "{}", refused.err);
    assert_eq!(world.ok("schedule list -o name"), "", "nothing was made");
    let made = import(&world, crontab, "--task host --prefix web1- --zone Asia/Tokyo");
    assert_eq!(made.code, Some(0), "{}", made.err);
    let name = world.ok("schedule list --prefix web1- -o name");
    let job = world.json(&format!("schedule run {} --wait", name.trim()));
    assert_eq!(job["task"]["name"], json!("host"));
    let input = json!({ "command": "cd /srv && ls | mail root", "stdin": "Dear all,\nBye\n", "environment": {} });
    assert_eq!(job["input"], input);
    let missing = import(&world, crontab, "--task nope");
    assert_eq!(missing.code, Some(5), "{}", missing.err);
}

#[test]
fn with_a_shell_a_line_runs_on_a_worker_that_allows_it() {
    let world = World::with_worker(&["--allow-commands"]);
    let crontab =
        format!("HOME={}\nPLACE=cron\n30 2 * * * wc -l | sed s/^/$PLACE:/; pwd%one%two\n", world.path().display());
    let refused = import(&world, &crontab, "");
    assert_eq!(refused.code, Some(2), "{}", refused.err);
    let offered = refused.err.lines().find_map(|line| line.strip_prefix("  punctual ")).expect("it says what to do");
    let made = Command::new("sh")
        .args(["-c", &format!("exec {PUNCTUAL} {offered}")])
        .current_dir(world.path())
        .output()
        .expect("the program starts");
    let err = String::from_utf8_lossy(&made.stderr);
    assert_eq!(made.status.code(), Some(0), "{offered}: {err}");
    assert!(err.contains("punctual worker --allow-commands"), "{err}");
    let name = world.ok("schedule list -o name");
    let job = world.json(&format!("schedule run {} --wait", name.trim()));
    assert_eq!((&job["state"], &job["task"]["kind"]), (&json!("succeeded"), &json!("command")), "{job}");
    let log = world.ok(&format!("logs {}", job["id"].as_str().expect("an id")));
    assert!(log.contains("cron:2\n") && log.contains(&world.path().display().to_string()), "{log}");
}

#[test]
fn a_line_that_is_left_out_this_time_still_has_its_mails() {
    let world = World::new();
    let crontab = "MAILTO=ops@example.org\n@daily curl http://h\n@daily cd / && ls\n\
                   MAILTO=dev@example.org\n@daily cd / && pwd\n";
    let made = import(&world, crontab, "--shell");
    assert_eq!(made.code, Some(0), "{}", made.err);
    let before = mailed(&world);
    let again = import(&world, crontab, "--keep-going");
    assert_eq!(again.code, Some(9), "{}", again.err);
    assert!(again.err.contains("2 lines need this machine."), "{}", again.err);
    assert_eq!(mailed(&world), before, "their schedules still run");
    assert!(!again.err.contains("not in this crontab"), "{}", again.err);
    let gone = import(&world, "MAILTO=ops@example.org\n@daily curl http://h\n", "");
    assert!(gone.err.contains("1 rule with the prefix `crontab-` is not in this crontab"), "{}", gone.err);
    assert_eq!(lens(&mailed(&world)), [1, 1], "the line is gone, and so is what its list says of it");
}

#[test]
fn a_line_that_cannot_be_read_this_time_still_has_its_mails() {
    let world = World::new();
    let crontab = "MAILTO=ops@example.org\n@daily curl http://h/a\n0 2 * * * curl http://h/b\n\
                   MAILTO=dev@example.org\n0 2 * * * curl http://h/c\n";
    let made = import(&world, crontab, "");
    assert_eq!(made.code, Some(0), "{}", made.err);
    let before = mailed(&world);
    for broken in [
        crontab.replace("0 2", "61 2"),
        crontab.replace("0 2 * * * curl http://h/b", "CRON_TZ=Nowhere/Else\n0 2 * * * curl http://h/b"),
        crontab.replace("MAILTO=dev@", "MAILTO=\"dev@"),
        crontab.replace("MAILTO=dev@", "MAILTO=dev@@"),
    ] {
        let again = import(&world, &broken, "--keep-going");
        assert_eq!(again.code, Some(9), "{broken}{}", again.err);
        let after = mailed(&world);
        for (rule, names) in &before {
            assert!(names.is_subset(&after[rule]), "{broken}{before:#?} {after:#?}");
        }
        assert!(!again.err.contains("not in this crontab"), "{broken}{}", again.err);
        assert_eq!(again.err.matches("Not all of the crontab could be read").count(), 1, "{broken}{}", again.err);
    }
    let added =
        import(&world, &format!("{}0 3 * * * curl http://h/d\n", crontab.replace("0 2", "61 2")), "--keep-going");
    assert_eq!(added.code, Some(9), "{}", added.err);
    let whole = mailed(&world);
    assert!(whole.values().any(|names| names.len() == 2 && !before.values().any(|old| old == names)), "{whole:#?}");

    let gone = import(&world, "MAILTO=ops@example.org\n@daily curl http://h/a\n", "");
    assert!(gone.err.contains("3 schedules with the prefix `crontab-` are not in this crontab"), "{}", gone.err);
    assert!(gone.err.contains("1 rule with the prefix `crontab-` is not in this crontab"), "{}", gone.err);

    let ops = before.iter().find(|(_, names)| names.len() == 2).expect("it has two lines").0;
    world.ok(&format!("notify apply {ops} --email ops@example.org"));
    import(&world, &crontab.replace("0 2", "61 2"), "--keep-going");
    assert_eq!(mailed(&world)[ops].len(), 0, "a rule about everything stays one");
    import(&world, crontab, "");
    assert_eq!(mailed(&world)[ops].len(), 2, "until the whole crontab is imported");
}

#[test]
fn a_long_list_loses_no_mails_and_mails_none_twice() {
    let world = World::new();
    let lines = |of_shell: usize| -> String {
        let of_shell = (0..of_shell).map(|n| format!("@daily cd / && echo {n}\n"));
        let calls = (0..30).map(|n| format!("@daily curl http://h/{n}\n"));
        std::iter::once("MAILTO=ops@example.org\n".to_owned()).chain(of_shell).chain(calls).collect()
    };
    let made = import(&world, &lines(120), "--shell");
    assert_eq!(made.code, Some(0), "{}", made.err);
    let all: BTreeSet<String> = mailed(&world).into_values().flatten().collect();
    assert_eq!((lens(&mailed(&world)), all.len()), (vec![100, 50], 150));

    let left_out = import(&world, &lines(120), "--keep-going");
    assert_eq!(left_out.code, Some(9), "{}", left_out.err);
    assert_eq!(lens(&mailed(&world)), [100, 50], "each once");
    assert_eq!(mailed(&world).into_values().flatten().collect::<BTreeSet<_>>(), all);
    assert!(!left_out.err.contains("not in this crontab"), "{}", left_out.err);

    let fewer = import(&world, &lines(60), "--keep-going");
    let second = mailed(&world).into_keys().next_back().expect("two rules");
    assert_eq!(lens(&mailed(&world))[0], 90, "the first has room for all");
    let told = format!("1 rule with the prefix `crontab-` is not in this crontab: {second}.");
    assert!(fewer.err.contains(&told), "{}", fewer.err);
}

#[test]
fn a_task_that_the_server_refuses_is_told_with_its_line() {
    let world = World::new();
    let said = import(&world, "@daily curl http://a:b:c/\n", "");
    assert_ne!(said.code, Some(0));
    assert!(said.err.starts_with("error: line 1: --http: "), "{}", said.err);
    world.ok("task apply host --probe '{}'");
    let said = import(&world, "\n@daily ls *\n", "--task host --prefix 'a b'");
    assert_eq!(said.code, Some(2));
    assert!(said.err.starts_with("error: --prefix: must be 1 to 128 letters"), "{}", said.err);
    // Without a prefix, what was made by hand is not taken for imported.
    world.ok("schedule create mine --task host --every 1h");
    let said = import(&world, "@daily ls *\n", "--task host --prefix ''");
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(!said.err.contains("not in this crontab"), "{}", said.err);
}
