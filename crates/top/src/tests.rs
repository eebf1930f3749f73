//! Screens in a terminal that is only memory, keys, and what is printed.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;

use crate::draw::draw;
use crate::sample::{Counters, Dropped, Flow, Interface, Node, Sample, Thread, Worker};
use crate::table::{Tab, short, table};
use crate::view::View;

fn interface(name: &str, up: bool, n: u64) -> Interface {
    Interface {
        name: name.into(),
        admin_up: up,
        link_up: up,
        counters: Counters {
            rx_packets: n,
            rx_bytes: n * 100,
            tx_packets: n / 2,
            tx_bytes: n * 50,
            rx_drops: n / 1000,
            tx_drops: 0,
        },
    }
}

/// A router at a second, with `n` packets received so far.
fn sample(at: f64, n: u64) -> Sample {
    let node = |name: &str, clocks| Node {
        node: name.into(),
        calls: n / 100,
        vectors: n,
        clocks: n * clocks,
    };
    Sample {
        at,
        interfaces: vec![
            interface("local0", false, 0),
            interface("tap0", true, n),
            interface("host-eth0", true, n * 2),
            interface("pg1", false, 0),
        ],
        workers: vec![Worker {
            worker: 0,
            nodes: vec![node("ip4-lookup", 30), node("ip4-input", 20)],
            received: n,
            transmitted: n,
            dropped: n / 1000,
            punted: 0,
        }],
        drops: vec![Dropped {
            count: n / 1000,
            node: "ip4-lookup".into(),
            reason: "no_route".into(),
            text: "no route to the destination".into(),
        }],
        threads: vec![
            Thread {
                name: "parshall_main".into(),
                kind: "control".into(),
                ..Thread::default()
            },
            Thread {
                name: "parshall-wk0".into(),
                kind: "workers".into(),
                cpu: Some(2),
                state: "running".into(),
                queues: Some(3),
                loops: n,
                sleeps: 0,
            },
        ],
        flows: vec![
            flow("198.51.100.7", n / 100),
            flow("198.51.100.8", n / 50),
            // No sample of it between the looks.
            flow("198.51.100.9", 10),
        ],
    }
}

/// A flow to this address with so many samples of one in 100.
fn flow(destination: &str, samples: u64) -> Flow {
    Flow {
        interface: "tap0".into(),
        direction: "rx".into(),
        source: "192.0.2.1".into(),
        destination: destination.into(),
        number: 17,
        source_port: 4711,
        destination_port: 53,
        samples,
        packets: samples * 100,
        bytes: samples * 10_000,
    }
}

fn view() -> View {
    let mut v = View::new("parshall 1.0", false);
    v.take(Ok(sample(0.0, 1000)));
    v.take(Ok(sample(2.0, 5_001_000)));
    v
}

fn screen(view: &View, width: u16, height: u16) -> (String, bool) {
    let mut terminal =
        Terminal::new(TestBackend::new(width, height)).expect("a terminal of memory");
    terminal.draw(|f| draw(f, view)).expect("drawn");
    let buffer = terminal.backend().buffer();
    let line = |y: u16| {
        let cells = (0..width).map(|x| buffer[(x, y)].symbol());
        cells.collect::<String>().trim_end().to_owned()
    };
    let text: Vec<String> = (0..height).map(line).collect();
    let colored = buffer
        .content
        .iter()
        .any(|c| c.fg != Color::Reset || c.bg != Color::Reset);
    (text.join("\n"), colored)
}

fn press(view: &mut View, keys: &str) -> bool {
    let mut ended = false;
    for c in keys.chars() {
        let code = match c {
            '\t' => KeyCode::Tab,
            '\n' => KeyCode::Enter,
            '\x1b' => KeyCode::Esc,
            '\x08' => KeyCode::Backspace,
            c => KeyCode::Char(c),
        };
        ended |= view.key(KeyEvent::new(code, KeyModifiers::NONE));
    }
    ended
}

#[test]
fn the_interfaces_cell_for_cell() {
    let (text, colored) = screen(&view(), 90, 8);
    assert_eq!(
        text,
        "parshall 1.0\n 1 Interfaces  2 Nodes  3 Drops  4 Workers  5 Flows\n\
         interface▼ state  rx_pps  rx_bps  tx_pps  tx_bps  drops_ps  drops\n\
         host-eth0  up      5.00M   4.00G   2.50M   2.00G     5.00k  10.0k\n\
         pg1        down        0       0       0       0         0      0\n\
         tap0       up      2.50M   2.00G   1.25M   1.00G     2.50k  5.00k\n\n\
         q end  tab next  s sort  r reverse  p pause  / filter  ? help"
    );
    assert!(!colored);
    let mut colors = view();
    colors.color = true;
    assert!(screen(&colors, 90, 8).1);
}

#[test]
fn keys_choose_sort_filter_pause_and_end() {
    let mut v = view();
    let first = |v: &View| v.table().rows[0][0].shown();
    press(&mut v, "ssr");
    assert_eq!(first(&v), "pg1");
    press(&mut v, "r");
    assert_eq!(first(&v), "host-eth0");
    press(&mut v, "/TAPx\x08\n");
    assert_eq!((v.table().rows.len(), first(&v).as_str()), (1, "tap0"));
    // While it is typed, q is a letter.
    assert!(!press(&mut v, "/q\x1b"));
    assert_eq!(v.table().rows.len(), 3);
    press(&mut v, "\t");
    assert_eq!(v.tab(), Tab::Nodes);
    assert!(
        screen(&v, 90, 8).0.contains("ip4-lookup"),
        "{}",
        screen(&v, 90, 8).0
    );
    press(&mut v, "3");
    assert!(screen(&v, 100, 8).0.contains("no_route"));
    press(&mut v, "5");
    // The flow with the most bits first, and none that nothing was seen of.
    let flows = v.table().rows;
    assert_eq!((flows.len(), first(&v).as_str()), (2, "tap0"));
    let cells: Vec<String> = flows[0].iter().map(|c| c.shown()).collect();
    let want = ["udp", "192.0.2.1:4711", "198.51.100.8:53", "5.00M", "4.00G"];
    assert_eq!(cells[2..7], want);
    press(&mut v, "\t");
    assert_eq!(v.tab(), Tab::Interfaces);
    press(&mut v, "p");
    assert!(v.paused && screen(&v, 90, 8).0.contains("paused"));
    press(&mut v, "?");
    assert!(screen(&v, 90, 9).0.contains("this help"));
    // It is the help that q closes.
    assert!(!press(&mut v, "q"));
    assert!(press(&mut v, "q"));
    let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert!(v.key(control_c));
}

#[test]
fn every_size_can_be_drawn_and_long_tables_moved_in() {
    let mut v = view();
    for tab in 0..Tab::ALL.len() {
        v.tab = tab;
        for (w, h) in [(1, 1), (2, 3), (10, 4), (80, 24), (300, 100)] {
            screen(&v, w, h);
        }
    }
    v.tab = 0;
    for _ in 0..100 {
        v.key(KeyEvent::new(KeyCode::Down, KeyModifiers::NONE));
    }
    assert_eq!(v.top, 2);
    assert!(!screen(&v, 80, 8).0.contains("host-eth0"));
}

#[test]
fn a_router_that_is_gone_is_told_and_the_last_look_stays() {
    let mut v = view();
    v.take(Err("nobody listens".into()));
    let text = screen(&v, 90, 8).0;
    assert!(text.contains("nobody listens") && text.contains("tap0"));
    v.take(Ok(sample(3.0, 5_001_000)));
    assert!(!screen(&v, 90, 8).0.contains("nobody listens"));
}

#[test]
fn cleared_counters_and_new_interfaces_make_no_peaks() {
    let (mut older, mut newer) = (sample(0.0, 1_000_000), sample(1.0, 10));
    newer.interfaces.push(interface("new", true, 1_000_000_000));
    older.drops.clear();
    let t = table(Tab::Interfaces, Some(&older), &newer);
    let row = |name: &str| {
        t.rows
            .iter()
            .find(|r| r[0].shown() == name)
            .map(|r| r[2].shown())
    };
    assert_eq!(row("tap0").as_deref(), Some("10"));
    assert_eq!(row("new").as_deref(), Some("0"));
}

#[test]
fn printed_tables_and_json() {
    let text = crate::as_text(&sample(0.0, 1000), &sample(1.0, 2000));
    assert!(
        text.contains("\nWorkers\nworker        cpu  state    queues"),
        "{text}"
    );
    let json: serde_json::Value =
        serde_json::from_str(&crate::as_json(&sample(0.0, 1000), &sample(1.0, 2000)))
            .expect("JSON");
    assert_eq!(json["interfaces"][0]["rx_pps"], 1000.0);
    assert_eq!(json["drops"][0]["packets_ps"], 1.0);
    assert_eq!(json["workers"][0]["cpu"], "2");
    assert_eq!(json["flows"][0]["pps"], 1000.0);
}

#[test]
fn numbers_are_short() {
    for (n, want) in [
        (0.0, "0"),
        (0.5, "0.5"),
        (999.0, "999"),
        (1000.0, "1.00k"),
        (12_345.0, "12.3k"),
        (999_949.0, "1.00M"),
        (1e9, "1.00G"),
        (5e15, "5000T"),
    ] {
        assert_eq!(short(n), want);
    }
}
