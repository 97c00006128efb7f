//! Templates that were written to break the server. Each is refused or rendered; none ends the process.

use std::thread;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::super::tests::{failed, message};
use super::*;

/// Threads of the server have 2 MiB; what a template needs must leave most of it.
const STACK: usize = 512 << 10;
/// Unoptimised, the worst takes a second; this is for a busy machine. Without limits they take far longer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The largest there is.
fn large_message() -> NotificationMessage {
    let mut event = failed();
    event.attempts = vec![event.attempts[0].clone(); 5];
    for attempt in &mut event.attempts {
        attempt.reason = Some("ä".repeat(300));
    }
    let mut large = message(vec![event; 20]);
    large.text = "Ä quite long text. ".repeat(TEXT_BYTES_MAX / 20);
    large
}

/// What becomes of a template on a small stack.
fn tried(source: String) -> Result<String, BadTemplate> {
    let rendering = move || {
        let context = Context::new(&large_message());
        let begin = Instant::now();
        let rendered = render(&source, &context);
        let took = begin.elapsed();
        assert!(took < PATIENCE, "{took:?}: {source:.80}…");
        rendered
    };
    thread::Builder::new().stack_size(STACK).spawn(rendering).unwrap().join().unwrap()
}

#[track_caller]
fn refused(source: String) -> String {
    assert!(source.len() <= SOURCE_BYTES_MAX, "{} bytes", source.len());
    let start: String = source.chars().take(60).collect();
    tried(source).expect_err(&start).to_string()
}

/// `head`, then `link` as often as a template has room for, then `tail`.
fn chain(head: &str, link: &str, tail: &str) -> String {
    let room = SOURCE_BYTES_MAX - head.len() - tail.len();
    format!("{head}{}{tail}", link.repeat(room / link.len()))
}

/// `left` and `right` around `rule`, as often as a template has room for.
fn nested(left: &str, right: &str) -> String {
    let times = (SOURCE_BYTES_MAX - 20) / (left.len() + right.len());
    format!("{{{{{} rule {}}}}}", left.repeat(times), right.repeat(times))
}

#[test]
fn a_template_of_one_endless_expression_is_refused() {
    for link in [
        ".a",
        "[0]",
        "|trim",
        "[:1]",
        "//a",
        " and a",
        " or a",
        " is none",
        " is not none",
        " if a",
        "==a",
        "()",
        "|default(a)",
        " if a else a",
        " in a",
        " not in a",
        "~a",
        "**a",
        "(a)",
        ",a",
    ] {
        let told = refused(chain("{{ a", link, " }}"));
        assert!(told.contains("too long"), "{link}: {told}");
    }
    for link in ["not ", "- ", "(", "[", "{1:", "a(", "a[", "a.a(", "a|trim(", "a is none("] {
        refused(chain("{{ ", link, "a }}"));
        refused(chain("{% if ", link, "a %}{% endif %}"));
    }
    for (left, right) in [("(", ")"), ("[", "]"), ("{1:", "}"), ("a[", "]"), ("a(", ")"), ("not (", ")"), ("-(", ")")] {
        refused(nested(left, right));
    }
    for head in ["{% for ", "{% for a in a", "{% if a", "{% set a", "{% with a = a", "{% filter a", "{% do a"] {
        for link in [".a", "(", ",(", "|a", " and a", "not "] {
            refused(chain(head, link, " %}"));
        }
    }
}

#[test]
fn a_template_of_nested_blocks_is_refused() {
    for (open, close) in [
        ("{%if rule%}", "{%endif%}"),
        ("{%for a in events%}", "{%endfor%}"),
        ("{%for a in events%}{%else%}", "{%endfor%}"),
        ("{%if rule%}{%else%}", "{%endif%}"),
    ] {
        let times = SOURCE_BYTES_MAX / (open.len() + close.len());
        let told = refused(format!("{}{}", open.repeat(times), close.repeat(times)));
        assert!(told.contains("too deep"), "{open}: {told}");
        let told = refused(chain("", open, ""));
        assert!(told.contains("too deep"), "{open}: {told}");
    }
    for other in ["{%with%}", "{%filter trim%}", "{%set a%}", "{%autoescape a%}", "{%raw%}", "{%macro a()%}"] {
        let told = refused(chain("", other, ""));
        assert!(told.contains("is not allowed"), "{other}: {told}");
    }
    assert_eq!(
        tried(chain("{%if not rule%}", "{%elif not rule%}", "{%endif%}")).unwrap(),
        "",
        "these stand side by side"
    );
}

#[test]
fn a_template_at_every_limit_needs_little_stack() {
    for (open, close) in [
        ("{% if rule %}", "{% endif %}"),
        ("{% for a in tasks %}", "{% endfor %}"),
        ("{% if not rule %}{% else %}", "{% endif %}"),
    ] {
        let blocks = |inner: &str| format!("{}{inner}{}", open.repeat(19), close.repeat(19));
        for inner in [
            format!("{{% if {}rule %}}{{% endif %}}", "not ".repeat(146)),
            format!("{{% if rule{} %}}{{% endif %}}", " and rule".repeat(73)),
            format!("{{% if rule{} %}}{{% endif %}}", " or rule == 'ops'".repeat(36)),
            format!("{{{{ rule{} }}}}", "|trim".repeat(74)),
            format!("{{{{ rule{} }}}}", "|trim|default('-')".repeat(20)),
            format!("{{{{ text{} }}}}", "[1:]".repeat(37)),
        ] {
            // One less, as the inner `if` is a block too.
            let source = blocks(&inner);
            let rendered = tried(source.clone());
            assert!(rendered.is_ok(), "{source}: {rendered:?}");
        }
    }
}

#[test]
fn a_long_template_of_many_small_parts_is_taken() {
    let long = chain("", "{% if rule %}{{ rule|upper }}{% elif text %}-{% else %}({{ rule }}){% endif %}\n", "");
    assert!(tried(long).unwrap().starts_with("OPS\nOPS\n"));
    let comment = chain("{# ", "{{ a.a.a ((((", " #}.");
    assert_eq!(tried(comment).unwrap(), ".");
    let braces = chain("", "{ } }} %} #} { %", "");
    assert_eq!(tried(braces.clone()).unwrap(), braces);
}

#[test]
fn a_template_that_reads_too_much_is_stopped_before_it_takes_long() {
    for expression in [
        "text|lower|upper|lower|upper|trim|truncate(60000)|lower|upper|lower|upper|trim|length",
        "text|truncate(65000) == text|utc",
        "text[1:] == text[:-1]",
        "text|length > 1",
        "events == events",
        "events|upper|length",
    ] {
        let inner = format!("{{% if {expression} %}}1{{% endif %}}").repeat(20);
        let source = format!("{{% for a in events %}}{{% for b in events %}}{{% for c in events %}}{inner}");
        let told = refused(format!("{source}{}", "{% endfor %}".repeat(3)));
        assert!(told.contains("too much text") || told.contains("too many steps"), "{expression}: {told}");
    }
}

#[test]
fn a_template_that_shows_all_of_the_largest_message_is_taken() {
    let all = "{% for e in events %}{{ e.task|upper }}{% for a in e.attempts %}{% if events|length > 1 and text -%}
               {{ a.ending }} {{ a.started_at|utc }} {{ a.reason|default('-')|truncate(100) }}{% endif %}{% endfor %}\
               of {{ events|length }} {{ counts.failed|number }}\n{% endfor %}";
    let shown = tried(all.to_owned()).unwrap();
    assert!(shown.ends_with("of 20 20\n") && shown.contains("timed_out 2026-11-16"), "{shown}");
}

#[test]
fn places_and_slices_stay_within_the_list() {
    for (source, expected) in [
        ("{{ events[0].attempts[1].ending[:5]|upper }}", "TIMED"),
        ("{{ rule[1:] }} {{ rule[:-1] }} {{ rule[-2:] }} {{ rule[5:2] }} {{ rule[:99] }}", "ps op ps  ops"),
        (
            "{{ rule[-9223372036854775807:2] }}{{ events[:2]|length }}{{ events[7:9223372036854775807]|length }}",
            "op213",
        ),
        ("{{ events[-1].kind }} {{ counts['failed'] }} {{ counts.lost|default('-') }}", "failed 20 -"),
    ] {
        assert_eq!(tried(source.to_owned()).unwrap(), expected, "{source}");
    }
    for source in ["{{ rule[1:5:-1] }}", "{{ rule['a':] }}", "{{ rule[] }}", "{{ rule[-] }}", "{{ events[20].kind }}"] {
        refused(source.to_owned());
    }
}

/// Pieces of templates, so that many of what is made of them parse.
fn piece() -> impl Strategy<Value = String> {
    let fixed = prop::sample::select(vec![
        "{{ ",
        " }}",
        "{% if rule %}",
        "{% elif text %}",
        "{% else %}",
        "{% endif %}",
        "{% for e in events %}",
        "{% endfor %}",
        "{% ",
        " %}",
        "{# ",
        " #}",
        "{{ e.reason }}",
        "rule",
        "text",
        "events",
        "e",
        "counts",
        ".failed",
        "[0]",
        "[-1:]",
        "[1:-3]",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        ":",
        "-",
        " not ",
        " and ",
        " or ",
        " in ",
        " is ",
        " none",
        " if ",
        " else ",
        "==",
        "<=",
        "/",
        "//",
        "%",
        "|trim",
        "|upper",
        "|truncate(3)",
        "|default",
        "|length",
        "|first",
        "|last",
        "|utc",
        "|number",
        "0",
        "7",
        "1e400",
        "'ä'",
        "9223372036854775808",
        "170141183460469231731687303715884105728",
        "\"\\u12",
        "\n",
        " ",
    ]);
    let whole = prop::sample::select(vec!["{{ rule }}", "{{ -9223372036854775808 }}", "{{ text[5:2] }}"]);
    let times = prop_oneof![9 => Just(1_usize), 1 => 1_usize..2000];
    let repeated = (fixed, times).prop_map(|(piece, times)| piece.repeat(times));
    prop_oneof![9 => repeated, 1 => whole.prop_map(str::to_owned), 1 => "\\PC{0,5}"]
}

/// Expressions that parse, of any length.
fn long_expression() -> impl Strategy<Value = String> {
    let before = prop::sample::select(vec!["", "not ", "-", "- ", "("]);
    let after =
        prop::sample::select(vec![".a", "[0]", "|trim", "-rule", " and rule", " if rule else 1", " is none", ")"]);
    let many = |link| (prop::collection::vec(link, 1..4), 1_usize..2000);
    let repeated = |(links, times): (Vec<&str>, usize)| links.concat().repeat(times);
    (many(before.boxed()), many(after.boxed()))
        .prop_map(move |(before, after)| format!("{{{{ {}rule{} }}}}", repeated(before), repeated(after)))
}

fn template() -> impl Strategy<Value = String> {
    let pieces = prop::collection::vec(piece(), 1..40).prop_map(|pieces| pieces.concat());
    prop_oneof![2 => pieces, 1 => long_expression()].prop_map(|mut source| {
        source.truncate(source.floor_char_boundary(SOURCE_BYTES_MAX));
        source
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_template_is_rendered_or_refused(source in template()) {
        if let Err(bad) = tried(source) {
            prop_assert!(!bad.detail.is_empty() && bad.detail.len() < 1000, "{}", bad);
        }
    }
}
