//! Tests of matching: VPP's ways of writing, every class of error, and properties over random lines.

use super::*;
use crate::kind::NoNames;
use crate::value::{Mac, Prefix};
use proptest::prelude::*;

const PATTERNS: &[&str] = &[
    "show version",
    "show interface [<if:interface>]",
    "show interface address [<if:interface>]",
    "show interface rx-placement",
    "show ip fib [* table <table:u32> | summary | <prefix:prefix4>]",
    "show ip6 fib",
    "show ip neighbor [<if:interface>]",
    "show mpls fib [<label:u32 0..=1048575>]",
    "show runtime [max]",
    "set interface state <if:interface> <state:{up|down}>",
    "set interface ip address [del] <if:interface> ( <address:prefix> | all )",
    "set interface mtu [* packet | ip4 | ip6] <mtu:u32 68..=9216> <if:interface>",
    "ip route ( add | del ) <prefix:prefix> [* table <table:u32>] (+path via ( <nh:ip> [<if:interface>] | drop | <if:interface> ) \
     [* weight <weight:u32 1..=255> | out-labels (+ <label:u32 16..=1048575>)])",
    "ip neighbor [del] <if:interface> <ip:ip> <mac:mac> [static]",
    "create tap [* id <id:u32> | host-if-name <host:word> | hw-addr <mac:mac> | host-ip4-addr <ip4:prefix4>]",
    "packet-generator new <stream:block>",
    "comment <text:block>",
    "exec <file:path>",
    "echo <text:rest>",
    "sflow enable <if:interface> [* sampling-rate <rate:u32 1..=10000000> | disable]",
    "trace add <node:name node> <count:u32 1..=10000>",
    "shutdown",
];

struct Known;
impl Names for Known {
    fn list(&self, class: &str) -> Vec<String> {
        match class {
            "interface" => vec!["rx".into(), "tap0".into()],
            "node" => vec!["ethernet-input".into()],
            _ => Vec::new(),
        }
    }
}

fn table() -> CommandTable<usize> {
    let spec = |(handler, pattern): (usize, &&'static str)| CommandSpec {
        pattern,
        help: "Help",
        detail: "",
        params: &[],
        handler,
    };
    CommandTable::new(PATTERNS.iter().enumerate().map(spec).collect()).expect("patterns")
}

/// The pattern that `line` means and its arguments.
fn parsed(line: &str) -> (&'static str, Args) {
    let table = table();
    let found = table
        .parse(line, &Known)
        .unwrap_or_else(|e| panic!("{}", e.render()));
    (found.spec.pattern, found.args)
}

fn error(line: &str) -> ParseError {
    table()
        .parse(line, &Known)
        .map(|m| m.spec.pattern)
        .expect_err(line)
}

#[test]
fn abbreviations() {
    for (line, want) in [
        ("sh v", "show version"),
        ("sh int", "show interface [<if:interface>]"),
        ("sh int addr", "show interface address [<if:interface>]"),
        ("show ip fib", PATTERNS[4]),
        ("sh ip6 f", "show ip6 fib"),
        ("sh ip n", PATTERNS[6]),
    ] {
        assert_eq!(parsed(line).0, want, "{line}");
    }
}

#[test]
fn what_follows_decides_an_ambiguous_first_word() {
    for (line, kind, column) in [
        ("sh", ErrorKind::Ambiguous, 1),
        ("s x", ErrorKind::UnknownWord, 3),
        ("sh i", ErrorKind::Ambiguous, 4),
        ("sh xyzzy", ErrorKind::UnknownWord, 4),
    ] {
        let e = error(line);
        assert_eq!((e.kind, e.column), (kind, column), "{line}: {}", e.render());
    }
    assert_eq!(parsed("shut").0, "shutdown");
    assert_eq!(parsed("s ru").0, "show runtime [max]");
    assert_eq!(parsed("s int").0, "show interface [<if:interface>]");
}

#[test]
fn a_known_name_beats_an_abbreviation_and_quotes_beat_all() {
    assert_eq!(
        parsed("show interface rx").0,
        "show interface [<if:interface>]"
    );
    assert_eq!(
        parsed("show interface rx-p").0,
        "show interface rx-placement"
    );
    assert_eq!(
        parsed("show interface \"address\"").1.get::<&str>("if"),
        Some("address")
    );
}

#[test]
fn arguments_are_typed() {
    let (_, args) = parsed("set int ip addr del tap0 10.0.0.1/24");
    assert!(args.has("del"));
    assert_eq!(
        args.get::<Prefix>("address")
            .map(|p| p.to_string())
            .as_deref(),
        Some("10.0.0.1/24")
    );
    let (_, args) = parsed("ip nei tap0 10.0.0.2 02:fe:00:00:00:01 st");
    assert_eq!(args.get::<Mac>("mac"), Some(Mac([2, 0xfe, 0, 0, 0, 1])));
    assert!(args.has("static") && !args.has("del"));
    assert_eq!(
        parsed("set int state tap0 u").1.get::<&str>("state"),
        Some("up")
    );
    assert_eq!(
        parsed("trace add ethernet-input 10").1.get::<u32>("count"),
        Some(10)
    );
}

#[test]
fn options_come_in_any_order_once() {
    for line in [
        "create tap id 3 host-if-name x hw-addr 02:fe:00:00:00:01",
        "create tap hw 02:fe:00:00:00:01 host-if x id 3",
    ] {
        let (_, args) = parsed(line);
        assert_eq!(
            (args.get::<u32>("id"), args.get::<&str>("host")),
            (Some(3), Some("x")),
            "{line}"
        );
    }
    assert_eq!(parsed("create tap").1, {
        let mut a = Args::default();
        a.push_word("create");
        a.push_word("tap");
        a
    });
    assert_eq!(error("create tap id 3 id 4").column, 17);
}

#[test]
fn multipath_routes_keep_their_paths_apart() {
    let (_, args) = parsed(
        "ip route add 10.0.0.0/8 via 1.1.1.1 tap0 weight 2 via 2.2.2.2 out-labels 17 18 via tap0 via drop",
    );
    let paths = args.group("path");
    assert_eq!(paths.len(), 4);
    assert_eq!(
        (paths[0].get::<&str>("if"), paths[0].get::<u32>("weight")),
        (Some("tap0"), Some(2))
    );
    assert_eq!(
        (paths[1].get::<&str>("if"), paths[1].all::<u32>("label")),
        (None, vec![17, 18])
    );
    assert_eq!(paths[2].get::<&str>("if"), Some("tap0"));
    assert!(paths[3].has("drop") && args.has("add"));
}

#[test]
fn blocks_and_the_rest_are_raw() {
    let (_, args) = parsed("packet-gen new {\n  name x\n  data { IP4: 1 -> 2 }\n}");
    assert_eq!(
        args.get::<&str>("stream"),
        Some("\n  name x\n  data { IP4: 1 -> 2 }\n")
    );
    assert_eq!(
        parsed("echo  a \"b  c\" # d ").1.get::<&str>("text"),
        Some("a \"b  c\" # d")
    );
}

#[test]
fn the_rest_of_the_line_is_kept_where_another_command_ends_early() {
    let spec = |pattern| CommandSpec {
        pattern,
        help: "",
        detail: "",
        params: &[],
        handler: (),
    };
    let table = CommandTable::new(vec![spec("say hi"), spec("say <text:rest>")]).expect("patterns");
    let text = |line| {
        let found = table.parse(line, &NoNames).expect(line);
        found.args.get::<String>("text")
    };
    assert_eq!(text("say hi"), None);
    assert_eq!(text("say hi there"), Some("hi there".into()));
    assert_eq!(text("say ho there"), Some("ho there".into()));
}

#[test]
fn errors_point_and_help() {
    let cases: &[(&str, ErrorKind, usize, &str)] = &[
        ("", ErrorKind::Empty, 1, "no command"),
        (
            "shwo interface",
            ErrorKind::UnknownWord,
            1,
            "did you mean: show interface",
        ),
        (
            "show interfces",
            ErrorKind::UnknownWord,
            6,
            "did you mean: show interface",
        ),
        (
            "interface show",
            ErrorKind::UnknownWord,
            1,
            "show interface",
        ),
        (
            "show xyzzy",
            ErrorKind::UnknownWord,
            6,
            "expected one of: version, interface",
        ),
        ("show i", ErrorKind::Ambiguous, 6, "interface, ip, ip6"),
        (
            "set interface state tap0",
            ErrorKind::Missing,
            25,
            "<state> (up|down)",
        ),
        (
            "set interface state",
            ErrorKind::Missing,
            20,
            "<if> (an interface name)",
        ),
        (
            "sflow enable tap0 sampling-rate 0",
            ErrorKind::OutOfRange,
            33,
            "<rate>: 0 is outside 1..=10000000",
        ),
        (
            "set interface ip address tap0 10.0.0.1",
            ErrorKind::BadValue,
            31,
            "a prefix such as",
        ),
        (
            "set interface ip address tap0 10.0.0.1/40",
            ErrorKind::OutOfRange,
            31,
            "prefix length 40 is outside 0..=32",
        ),
        (
            "show version now",
            ErrorKind::Trailing,
            14,
            "'now' is too much",
        ),
        (
            "packet-generator new {",
            ErrorKind::Unclosed,
            22,
            "never closed",
        ),
        ("show runtime mx", ErrorKind::UnknownWord, 14, "max"),
    ];
    for (line, kind, column, text) in cases {
        let error = error(line);
        assert_eq!(
            (error.kind, error.column),
            (*kind, *column),
            "{line}: {error}"
        );
        assert!(error.to_string().contains(text), "{line}: {error}");
    }
}

#[test]
fn a_very_long_line_is_linear_and_does_not_recurse() {
    let line = format!(
        "ip route add 10.0.0.0/8{}",
        " via 1.1.1.1 out-labels 16".repeat(20_000)
    );
    assert_eq!(parsed(&line).1.group("path").len(), 20_000);
}

#[test]
fn patterns_that_cannot_work_are_refused() {
    let spec = |pattern| CommandSpec {
        pattern,
        help: "",
        detail: "",
        params: &[],
        handler: (),
    };
    let refusal = |patterns: &[&'static str]| {
        CommandTable::new(patterns.iter().map(|p| spec(p)).collect())
            .map(|_| ())
            .expect_err("refused")
            .to_string()
    };
    assert!(refusal(&["show version", "show version"]).contains("twice"));
    assert!(
        refusal(&["a [*b|c] d [*b|c] e [*b|c] f [*b|c] g [*b|c]"]).contains("more than 4 sets")
    );
}

/// The slow reference for abbreviation: a prefix of a word is unique if no other word of the same
/// place begins with it.
fn unique_prefixes(words: &[&'static str], word: &'static str) -> Vec<&'static str> {
    (1..=word.len())
        .map(|n| &word[..n])
        .filter(|p| *p == word || words.iter().filter(|w| w.starts_with(p)).count() == 1)
        .collect()
}

#[test]
fn every_unique_prefix_is_the_full_word() {
    let paths: Vec<Vec<&'static str>> = PATTERNS
        .iter()
        .flat_map(|p| pattern::leading_words(&pattern::parse(p).expect(p)))
        .collect();
    let table = table();
    let mut tried = 0;
    for path in &paths {
        for depth in 0..path.len() {
            let mut siblings: Vec<&'static str> = paths
                .iter()
                .filter(|p| p.len() > depth && p[..depth] == path[..depth])
                .map(|p| p[depth])
                .collect();
            siblings.sort_unstable();
            siblings.dedup();
            for prefix in unique_prefixes(&siblings, path[depth]) {
                let abbreviated = [&path[..depth], &[prefix]].concat().join(" ");
                let full = path[..=depth].join(" ");
                let outcome = |line: &str| {
                    table
                        .parse(line, &NoNames)
                        .map(|m| (m.spec.pattern, m.args))
                        .map_err(|e| (e.kind, e.message))
                };
                assert_eq!(outcome(&abbreviated), outcome(&full), "{abbreviated}");
                tried += 1;
            }
        }
    }
    assert!(tried > 100);
}

/// Words that get deep into the grammar, and ones that do not.
fn word() -> impl Strategy<Value = String> {
    let known: Vec<&'static str> = PATTERNS.iter().flat_map(|p| p.split_whitespace()).collect();
    prop_oneof![
        4 => (prop::sample::select(known), 1usize..20).prop_map(|(w, n)| w.chars().take(n).collect()),
        2 => prop::sample::select(vec!["tap0", "1.1.1.1", "10.0.0.0/8", "via", "16", "99999999999999999999", "{ a }", "\"q\"", "2001:db8::/32"]).prop_map(str::to_owned),
        1 => "\\PC{0,8}",
        1 => any::<String>(),
    ]
}

proptest! {
    #[test]
    fn no_line_panics_anywhere(words in prop::collection::vec(word(), 0..12), cursor in 0usize..100) {
        let line = words.join(" ");
        let table = table();
        if let Err(error) = table.parse(&line, &Known) {
            prop_assert!(error.column >= 1 && !error.message.is_empty());
            error.render();
        }
        for candidate in table.complete(&line, cursor, &Known) {
            prop_assert!(line.is_char_boundary(candidate.start) && candidate.start <= line.len());
        }
        table.help(&line, &Known);
        let commands = crate::token::Script::new(&line).count();
        prop_assert!(commands <= line.len() + 1);
    }

    /// Taking every completion, word by word, always leads on: nothing offered is refused.
    #[test]
    fn what_is_offered_is_accepted(choices in prop::collection::vec(any::<prop::sample::Index>(), 1..8)) {
        let table = table();
        let mut line = String::new();
        for choice in choices {
            let offered = table.complete(&line, line.len(), &Known);
            if offered.is_empty() {
                break;
            }
            line.push_str(&offered[choice.index(offered.len())].text);
            line.push(' ');
            if let Err(error) = table.parse(&line, &Known) {
                prop_assert_eq!(error.kind, ErrorKind::Missing, "{}", line);
            }
        }
    }
}
