//! Crontabs as people have them.

use punctual_recurrence::crontab::{
    CRONTAB_BYTES_MAX, CRONTAB_ENTRIES_MAX, Crontab, CrontabEntry, CrontabFormat, CrontabOverlap, Severity, mail_to,
};
use punctual_recurrence::{CronExpr, Rule};

fn user(text: &str) -> Crontab {
    Crontab::parse(text, CrontabFormat::User)
}

fn messages(crontab: &Crontab) -> Vec<String> {
    crontab.diagnostics.iter().map(ToString::to_string).collect()
}

fn command_of(line: &str) -> (String, Option<String>) {
    let crontab = user(&format!("* * * * * {line}"));
    assert_eq!(messages(&crontab), Vec::<String>::new());
    (crontab.entries[0].command.clone(), crontab.entries[0].stdin.clone())
}

#[test]
fn a_users_crontab_becomes_entries() {
    let crontab = user(
        "# nightly work\n\nSHELL=/bin/bash\nMAILTO = \"ops@example.com, dev@example.com\"\n\
         30 2 * * MON-FRI  /usr/local/bin/backup --full\n\t@daily\tlogrotate\r\nMAILTO=\n@every 90s ping\n",
    );
    assert_eq!(messages(&crontab), Vec::<String>::new());
    let [backup, rotate, ping] = &crontab.entries[..] else { panic!("{:?}", crontab.entries) };
    assert_eq!((backup.line, backup.command.as_str()), (5, "/usr/local/bin/backup --full"));
    assert_eq!(backup.schedule, Rule::Cron(CronExpr::parse("30 2 * * 1-5").expect("valid")));
    assert_eq!((&backup.user, &backup.zone, &backup.stdin), (&None, &None, &None));
    assert_eq!(backup.env["SHELL"].as_ref(), "/bin/bash");
    assert_eq!(backup.env["MAILTO"].as_ref(), "ops@example.com, dev@example.com");
    assert_eq!((rotate.line, rotate.command.as_str()), (6, "logrotate"));
    assert_eq!(ping.env["MAILTO"].as_ref(), "", "a variable holds for the entries after it, an empty one too");
}

#[test]
fn a_mailbox_that_is_no_address_is_told() {
    let crontab = user("MAILTO=root, ops@example.com,\n@daily a\nMAILTO=\"\"\n@daily b\n");
    let told = "line 1, column 1: warning: nobody mails to `root`, a mailbox of the machine of the crontab; write an \
                address, such as ops@example.org";
    assert_eq!(messages(&crontab), [told]);
    let named = |entry: &CrontabEntry| mail_to(&entry.env["MAILTO"]).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(named(&crontab.entries[0]), ["root", "ops@example.com"]);
    assert_eq!(named(&crontab.entries[1]), Vec::<String>::new());
}

#[test]
fn a_system_crontab_names_users() {
    let crontab = Crontab::parse("17 * * * * root cd / && run-parts /etc/cron.hourly\n", CrontabFormat::System);
    assert_eq!(messages(&crontab), Vec::<String>::new());
    assert_eq!(crontab.entries[0].user.as_deref(), Some("root"));
    assert_eq!(crontab.entries[0].command, "cd / && run-parts /etc/cron.hourly");
    let crontab = Crontab::parse("17 * * * * reboot", CrontabFormat::System);
    let expected = "line 1, column 12: error: a command is needed after the user; is this a user's crontab, without a user column?";
    assert_eq!(messages(&crontab), [expected]);
}

#[test]
fn percent_signs_part_the_command_from_its_input() {
    let own = |command: &str, stdin: Option<&str>| (command.to_owned(), stdin.map(str::to_owned));
    assert_eq!(command_of(r"date +\%F"), own("date +%F", None));
    assert_eq!(command_of("mail -s hi root%Dear all,%%Bye"), own("mail -s hi root", Some("Dear all,\n\nBye\n")));
    assert_eq!(command_of(r"cat%50\% off"), own("cat", Some("50% off\n")));
    assert_eq!(command_of("cat%"), own("cat", Some("")));
    // Other backslashes stay, and an escaped backslash does not escape the percent sign after it.
    assert_eq!(command_of(r"echo a\nb"), own(r"echo a\nb", None));
    assert_eq!(command_of(r"echo \\%x"), own(r"echo \\", Some("x\n")));
}

#[test]
fn the_zone_comes_from_cron_tz_and_not_from_tz() {
    let crontab =
        user("0 9 * * * a\nCRON_TZ=Asia/Tokyo\n0 9 * * * b\nTZ=Europe/Berlin\n0 9 * * * c\nCRON_TZ=\n0 9 * * * d\n");
    let zones: Vec<Option<&str>> = crontab.entries.iter().map(|entry| entry.zone.as_deref()).collect();
    assert_eq!(zones, [None, Some("Asia/Tokyo"), Some("Asia/Tokyo"), None]);
    assert_eq!(crontab.entries[2].env["TZ"].as_ref(), "Europe/Berlin");
    assert_eq!(crontab.diagnostics.len(), 1);
    assert_eq!(crontab.diagnostics[0].severity, Severity::Warning);
    assert!(messages(&crontab)[0].starts_with("line 4, column 1: warning: TZ only reaches the command"));
    assert!(!crontab.has_errors());
}

#[test]
fn entries_in_an_unknown_zone_are_not_imported_into_another() {
    let crontab = user("CRON_TZ=Mars/Olympus\n0 9 * * * a\nCRON_TZ=UTC\n0 9 * * * b\n");
    assert_eq!(
        messages(&crontab),
        [
            "line 1, column 1: error: `Mars/Olympus` is not a known time zone; use an IANA name such as Europe/Berlin",
            "line 2, column 1: error: not imported, because CRON_TZ in line 1 names no known time zone",
        ]
    );
    assert_eq!(crontab.entries.len(), 1);
}

#[test]
fn a_zone_that_depends_on_the_machine_is_not_imported() {
    let crontab = user("CRON_TZ=localtime\n0 9 * * * a\n");
    let refused = "line 1, column 1: error: `localtime` means another zone on each machine; name the zone itself, such as \
                   Europe/Berlin";
    assert_eq!(messages(&crontab)[0], refused);
    assert!(crontab.entries.is_empty());
}

#[test]
fn what_cannot_be_imported_is_named_by_line_and_column() {
    let check = |line: &str, expected: &str| assert_eq!(messages(&user(&format!("#\n{line}"))), [expected], "{line}");
    check("  61 * * * * x", "line 2, column 3: error: minute field: 61 is out of range; use 0 to 59");
    check(
        "0 0 30 2 * x",
        "line 2, column 5: error: day-of-month field: no year has such a date: `30` in month `2`; choose a day that the month has, such as L for its last day",
    );
    check(
        "@reboot /start.sh",
        "line 2, column 1: error: @reboot has no time: a schedule outlives reboots; start the job by hand or from the service that needs it, or schedule it by time",
    );
    check(
        "* * * * *",
        "line 2, column 1: error: a time and a command are needed; write `minute hour day month weekday command`",
    );
    check(
        "1BAD=x",
        "line 2, column 1: error: this is no variable name; use letters, digits and _, not beginning with a digit",
    );
    check(
        "NAME=\"open",
        "line 2, column 6: error: the quote is not closed at the end of the line; close it, or drop it",
    );
    check("-0 9 * * * x", "line 2, column 1: warning: the leading `-` only quiets cron's own log and is dropped");
    check("RANDOM_DELAY=5", "line 2, column 1: warning: RANDOM_DELAY is not imported; give the schedules a jitter");
}

#[test]
fn flags_of_other_crons_are_no_part_of_the_command() {
    let crontab = user("0 1 * * * -n -q /bin/backup -x\n0 2 * * *\t-qs  /bin/sync\n");
    let commands: Vec<_> = crontab.entries.iter().map(|entry| (entry.command.as_str(), entry.overlap)).collect();
    assert_eq!(commands, [("/bin/backup -x", CrontabOverlap::Allow), ("/bin/sync", CrontabOverlap::Skip)]);
    assert_eq!(
        messages(&crontab),
        [
            "line 1, column 1: warning: the flag `-n` is dropped: mails are only sent about runs that fail or are missed",
            "line 1, column 1: warning: the flag `-q` only quiets cron's own log and is dropped",
            "line 2, column 1: warning: the flag `-q` only quiets cron's own log and is dropped",
            "line 2, column 1: warning: the flag `-s` becomes the overlap policy `skip`",
        ]
    );
    let system = Crontab::parse("0 1 * * * root -s run\n", CrontabFormat::System);
    assert_eq!((system.entries[0].command.as_str(), system.entries[0].overlap), ("run", CrontabOverlap::Skip));
    for (line, column) in [("0 1 * * * -x run", 11), ("0 1 * * * - run", 11), ("0 1 * * * -n --all run", 14)] {
        let refused = format!(
            "line 1, column {column}: error: no command begins with `-`; the flags that may stand before one are -n, \
             -q and -s"
        );
        assert_eq!(messages(&user(line)), [refused], "{line}");
    }
    assert_eq!(messages(&user("0 1 * * * -n")), ["line 1, column 13: error: a command is needed after the time"]);
}

#[test]
fn a_crontab_has_limits() {
    let too_large = user(&"#".repeat(CRONTAB_BYTES_MAX + 1));
    assert!(too_large.has_errors() && too_large.entries.is_empty());
    let many = user(&"* * * * * x\n".repeat(CRONTAB_ENTRIES_MAX + 10));
    assert_eq!(many.entries.len(), CRONTAB_ENTRIES_MAX);
    assert!(many.has_errors());
    let wrong = user(&"x\n".repeat(100_000));
    assert_eq!(wrong.diagnostics.len(), 1001);
    let long = user(&format!("* * * * * {}", "x".repeat(20_000)));
    assert!(long.has_errors());
    let variables: String = (0..200).map(|number| format!("V{number}=x\n")).collect();
    assert_eq!(user(&variables).diagnostics.len(), 72);
}
