//! The bytes of VPP's protocol, its CRCs, and that nothing that arrives can do harm.

use std::collections::HashMap;

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::msg::*;

#[test]
fn every_message_has_vpps_crc() {
    let text = include_str!("../tests/crc.txt");
    let known: HashMap<&str, &str> = text
        .lines()
        .filter_map(|l| l.split_once(' '))
        .map(|(c, n)| (n, c))
        .collect();
    assert_eq!(known.len(), MESSAGES.len());
    for m in MESSAGES {
        assert_eq!(
            known.get(m.name),
            Some(&format!("{:08x}", m.crc).as_str()),
            "{}",
            m.name
        );
    }
}

#[test]
fn numbers_of_the_handshake_are_fixed_and_names_are_unique() {
    assert_eq!((SockclntCreate::ID, SockclntCreateReply::ID), (15, 16));
    assert_eq!((ControlPing::ID, GetApiJsonReply::ID), (23, 28));
    assert_eq!(id_of("get_api_json_reply"), Some(28));
    let names: std::collections::HashSet<&str> = MESSAGES.iter().map(|m| m.name).collect();
    assert_eq!(names.len(), MESSAGES.len());
    assert_eq!(ControlPing::info().tagged(), "control_ping_51077d14");
    for m in MODULES {
        let first = message(m.first).expect("a first message");
        assert_eq!(first.module, m.name);
    }
}

/// What papi sends first, and what it has to be told.
#[test]
fn the_handshake_byte_for_byte() {
    let asked = SockclntCreate {
        context: 124,
        name: "vppcfg".into(),
    };
    let bytes = frame(&asked.encode(Lead::default()));
    assert_eq!(
        bytes[..16],
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x46, 0, 0, 0, 0]
    );
    assert_eq!(bytes[16..22], [0, 0x0f, 0, 0, 0, 0x7c]);
    assert_eq!(&bytes[22..29], b"vppcfg\0");
    assert_eq!(bytes.len(), 16 + 70);
    let reply = SockclntCreateReply {
        client_index: 0,
        context: 124,
        response: 0,
        index: 0x8000_0001,
        message_table: vec![MessageTableEntry {
            index: 23,
            name: ControlPing::info().tagged(),
        }],
    };
    let bytes = reply.encode(Lead::default());
    assert_eq!(bytes.len(), 20 + 66);
    assert_eq!(
        bytes[..22],
        [
            0, 16, 0, 0, 0, 0, 0, 0, 0, 0x7c, 0, 0, 0, 0, 0x80, 0, 0, 1, 0, 1, 0, 23
        ]
    );
    assert_eq!(&bytes[22..44], b"control_ping_51077d14\0");
    assert_eq!(
        SockclntCreateReply::decode(&bytes),
        Ok((Lead::default(), reply))
    );
}

#[test]
fn sizes_of_the_answers_that_clients_take_apart() {
    let size = |bytes: Vec<u8>| bytes.len();
    let p = Lead::default();
    assert_eq!(size(ControlPingReply::default().encode(p)), 18);
    assert_eq!(size(ShowVersionReply::default().encode(p)), 362);
    assert_eq!(size(SwInterfaceDetails::default().encode(p)), 295);
    assert_eq!(size(IpAddressDetails::default().encode(p)), 28);
    assert_eq!(size(BridgeDomainDetails::default().encode(p)), 93);
    assert_eq!(size(VxlanTunnelV2Details::default().encode(p)), 68);
    assert_eq!(size(SwInterfaceTapV2Details::default().encode(p)), 310);
    assert_eq!(size(SwBondInterfaceDetails::default().encode(p)), 95);
    assert_eq!(size(SwMemberInterfaceDetails::default().encode(p)), 81);
    assert_eq!(size(LcpItfPairDetails::default().encode(p)), 67);
    assert_eq!(
        (FibPath::LEAST, AclRule::LEAST, IpRoute::LEAST),
        (167, 48, 27)
    );
    assert_eq!(size(GetApiJsonReply::default().encode(p)), 14);
}

#[test]
fn a_route_comes_back_as_it_went() {
    let path = FibPath {
        sw_if_index: 3,
        weight: 1,
        nh: FibPathNh {
            address: AddressUnion::new("192.0.2.1".parse().expect("an address")),
            ..FibPathNh::default()
        },
        ..FibPath::default()
    };
    let route = IpRouteAddDel {
        is_add: true,
        is_multipath: false,
        route: IpRoute {
            table_id: 7,
            prefix: msg::Prefix::new("10.0.0.0".parse().expect("an address"), 8),
            paths: vec![path; 3],
            ..IpRoute::default()
        },
    };
    let prefix = Lead {
        client_index: 5,
        context: 0x0004_0001,
    };
    let bytes = route.encode(prefix);
    assert_eq!(bytes.len(), 10 + 2 + 27 + 3 * 167);
    assert_eq!(IpRouteAddDel::decode(&bytes), Ok((prefix, route)));
    for end in 0..bytes.len() {
        assert_eq!(
            IpRouteAddDel::decode(&bytes[..end]),
            Err(DecodeError::Short),
            "{end}"
        );
    }
}

#[test]
fn texts_for_clients_are_short_and_plain() {
    let tag = SwInterfaceTagAddDel {
        tag: format!("é\0{}", "x".repeat(100)),
        ..SwInterfaceTagAddDel::default()
    };
    let bytes = tag.encode(Lead::default());
    assert_eq!(bytes.len(), 10 + 5 + 64);
    let (_, back) = SwInterfaceTagAddDel::decode(&bytes).expect("decoded");
    assert_eq!(back.tag, format!("??{}", "x".repeat(61)));
    // More values than the count can tell of are not sent.
    let list = AclInterfaceListDetails {
        acls: vec![1; 300],
        ..AclInterfaceListDetails::default()
    };
    let bytes = list.encode(Lead::default());
    assert_eq!(bytes.len(), 12 + 255 * 4);
}

#[test]
fn a_failure_is_told_in_the_reply_if_there_is_one() {
    let reply = error_reply(CreateSubif::info(), 9, -9).expect("a reply");
    let (prefix, told) = CreateSubifReply::decode(&reply).expect("decoded");
    assert_eq!((prefix.context, told.retval, told.sw_if_index), (9, -9, 0));
    assert!(error_reply(SwInterfaceDump::info(), 9, -9).is_none());
    assert!(error_reply(RxThreadExit::info(), 9, -9).is_none());
    assert!(error_reply(SflowSamplingRateGet::info(), 9, -9).is_none());
    // All others of either form.
    for m in MESSAGES.iter().filter(|m| m.reply.is_some()) {
        if let Some(bytes) = error_reply(m, 1, -1) {
            let id = u16::from_be_bytes([bytes[0], bytes[1]]);
            assert_eq!(
                again(id, &bytes[6..]),
                Some(Ok(bytes[6..].to_vec())),
                "{}",
                m.name
            );
        }
    }
}

#[test]
fn the_json_is_vpps_form_and_whole() {
    let all: Value = serde_json::from_str(&all_json()).expect("JSON");
    let modules = all.as_array().expect("an array");
    assert_eq!(modules.len(), MODULES.len());
    for module in modules {
        let mut known: Vec<String> = ["types", "unions", "enums", "enumflags"]
            .iter()
            .flat_map(|k| module[k].as_array().expect("a list"))
            .map(|t| t[0].as_str().expect("a name").to_owned())
            .collect();
        known.extend(
            module["aliases"]
                .as_object()
                .expect("aliases")
                .keys()
                .cloned(),
        );
        for kind in ["types", "messages", "unions"] {
            for item in module[kind].as_array().expect("a list") {
                for field in item
                    .as_array()
                    .expect("a list")
                    .iter()
                    .filter_map(Value::as_array)
                {
                    let of = field[0].as_str().expect("a type");
                    let bare = of
                        .strip_prefix("vl_api_")
                        .and_then(|t| t.strip_suffix("_t"));
                    assert!(
                        bare.is_none_or(|b| known.iter().any(|k| k == b)),
                        "{item}: {of}"
                    );
                }
            }
        }
    }
    let sflow = modules
        .iter()
        .find(|m| m["module"] == "sflow")
        .expect("sflow");
    let first = &sflow["messages"][0];
    assert_eq!(first[0], "sflow_enable_disable");
    assert_eq!(first[4], serde_json::json!(["bool", "enable_disable"]));
    assert_eq!(
        first[6],
        serde_json::json!({"crc": "0x8499814f", "options": {}})
    );
    assert_eq!(
        sflow["services"]["sflow_interface_dump"],
        serde_json::json!({"reply": "sflow_interface_details", "stream": true})
    );
    assert_eq!(sflow["vl_api_version"], "0x273ad146");
}

/// The page of messages is made from the schema; `PARSHALL_BLESS=1 cargo test -p parshall-vpp-wire` writes it anew.
#[test]
fn the_reference_page_is_current() {
    let page = reference(&schema::all().expect("read"));
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/binary-api.md"
    );
    if std::env::var_os("PARSHALL_BLESS").is_some() {
        std::fs::write(path, &page).expect("written");
    }
    let on_disk = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(
        on_disk, page,
        "docs/reference/binary-api.md is out of date: PARSHALL_BLESS=1 cargo test -p parshall-vpp-wire writes it"
    );
}

fn reference(schema: &schema::Schema) -> String {
    use std::fmt::Write;
    let mut out = String::from(
        "# Binary API\n\nThe messages of VPP's binary API that Parshall answers, by module, with their CRCs. This page is made from \
         `crates/vpp-wire/api`.\nHow to connect: [use VPP's clients](../how-to/use-vpp-clients.md).\n",
    );
    for m in &schema.modules {
        // Writing to a String cannot fail, here and below.
        let _ = write!(
            out,
            "\n## {} {}\n\n| message | CRC | fields | answered with |\n| --- | --- | --- | --- |\n",
            m.name, m.version
        );
        for x in &m.messages {
            let Some(s) = &x.service else { continue };
            let fields: Vec<String> = x.fields.iter().map(shown).collect();
            let answer = match (s.dump, &s.stream) {
                (true, _) => format!("`{}` each", s.reply),
                (_, Some(d)) => format!("`{d}` each, `{}`", s.reply),
                _ if s.reply == "null" => "nothing".to_owned(),
                _ => format!("`{}`", s.reply),
            };
            let events = s
                .events
                .iter()
                .fold(String::new(), |all, e| format!("{all}, later `{e}`"));
            let _ = writeln!(
                out,
                "| `{}` | `{:08x}` | {} | {answer}{events} |",
                x.name,
                schema::message_crc(schema, x),
                fields.join(", ")
            );
        }
    }
    out
}

fn shown(f: &schema::Field) -> String {
    use schema::Count;
    let count = match &f.count {
        Count::One => String::new(),
        Count::Fixed(n) => format!("[{n}]"),
        Count::Text(0) => "[]".to_owned(),
        Count::Text(n) => format!("[{n}]"),
        Count::Field(by) => format!("[{by}]"),
    };
    format!("`{} {}{count}`", f.kind, f.name)
}

proptest! {
    /// Whatever arrives: it is refused, or it is a message that stays the same from then on.
    #[test]
    fn any_bytes_are_refused_or_understood(id in 1..=MESSAGES.len() as u16, bytes in prop::collection::vec(any::<u8>(), 0..700)) {
        if let Some(Ok(first)) = again(id, &bytes) {
            prop_assert_eq!(again(id, &first), Some(Ok(first.clone())));
        }
    }

    /// Small counts, so that lists are there.
    #[test]
    fn lists_are_understood(id in 1..=MESSAGES.len() as u16, bytes in prop::collection::vec(0u8..3, 0..700)) {
        if let Some(Ok(first)) = again(id, &bytes) {
            prop_assert_eq!(again(id, &first), Some(Ok(first.clone())));
        }
    }
}
