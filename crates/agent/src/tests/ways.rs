//! What samples say of a packet's way: in on one interface and out on another.

use super::*;

#[test]
fn samples_of_both_directions_share_a_source() {
    let router = FakeRouter::with(3);
    *router.route.lock().unwrap() = Some(RouteInfo {
        out_if: 2,
        next_hop: "192.0.2.77".parse().unwrap(),
        src_mask_len: 24,
        dst_mask_len: 16,
    });
    router.pools.lock().unwrap().insert(2, (900, 0));
    let (mut a, sent) = agent(quiet(), router);
    let mut p = with_rings(&mut a, 1, 16).remove(0);
    let i = Interface::index;
    let leaving = |rx_if, tx_if| SampleSlot {
        tx_if,
        direction: Direction::Tx,
        ..sample(rx_if, 0, 14)
    };
    // In on 2; from 1 out on 2; made by the router and out on 2; from an interface that is gone, out on 2.
    put(&mut p, sample(2, 0, 14));
    put(&mut p, leaving(1, 2));
    put(&mut p, leaving(u32::MAX, 2));
    put(&mut p, leaving(99, 2));
    a.finish(SECOND);
    let got: Vec<_> = flows(&sent)
        .iter()
        .map(|f| (f.source, f.sequence, f.pool, f.input, f.output))
        .collect();
    assert_eq!(
        got,
        [
            (102, 1, 900, i(102), i(102)),
            (102, 2, 901, i(101), i(102)),
            (102, 3, 902, Interface::INTERNAL, i(102)),
            (102, 4, 903, Interface::UNKNOWN, i(102)),
        ]
    );
}

#[test]
fn a_packet_on_its_way_out_has_a_route_only_where_that_leads_the_same_way() {
    let router = FakeRouter::with(3);
    *router.route.lock().unwrap() = Some(RouteInfo {
        out_if: 2,
        next_hop: "192.0.2.77".parse().unwrap(),
        src_mask_len: 24,
        dst_mask_len: 16,
    });
    let (mut a, sent) = agent(quiet(), router);
    let mut p = with_rings(&mut a, 1, 16).remove(0);
    let mut masks = |tx_if, ethertype: u16| {
        let mut s = SampleSlot {
            tx_if,
            direction: Direction::Tx,
            ..sample(1, 0, 14)
        };
        s.header[12..14].copy_from_slice(&ethertype.to_be_bytes());
        put(&mut p, s);
        a.finish(SECOND);
        let bytes = sent.take().remove(0).1;
        let Some(Ok(Sample::Flow(f))) = Datagram::parse(&bytes).unwrap().samples().next() else {
            panic!()
        };
        let router = f.flow_records().find_map(|r| match r {
            Ok(FlowRecord::Router(r)) => Some((r.src_mask_len, r.dst_mask_len)),
            _ => None,
        });
        router.unwrap_or_default()
    };
    assert_eq!(masks(2, 0x0800), (24, 16));
    assert_eq!(masks(3, 0x0800), (0, 0));
    assert_eq!(masks(2, 0x8847), (0, 0));
}

#[test]
fn a_change_of_numbers_is_never_inside_a_datagram() {
    let router = FakeRouter::with(2);
    let (mut a, sent) = agent(quiet(), router.clone());
    let mut p = with_rings(&mut a, 1, 64).remove(0);
    let through = SampleSlot {
        tx_if: 2,
        ..sample(1, 0, 14)
    };
    a.poll(SECOND);
    put(&mut p, through);
    a.poll(SECOND + 1);
    // The list changes, says so, and the next sample is already of the new numbers.
    for r in router.interfaces.lock().unwrap().iter_mut() {
        r.if_index += 1_000_000_000;
    }
    router.generation.store(1, Ordering::Relaxed);
    put(&mut p, through);
    a.poll(SECOND + 2);
    a.finish(SECOND + 3);
    let datagrams: Vec<Vec<Flow>> = sent.take().iter().map(|(_, d)| decode_flows(d)).collect();
    let got: Vec<Vec<_>> = datagrams
        .iter()
        .map(|d| d.iter().map(|f| (f.source, f.sequence, f.output)).collect())
        .collect();
    let new = 1_000_000_000;
    assert_eq!(
        got,
        [
            vec![(101, 1, Interface::index(102))],
            vec![(new + 101, 1, Interface::index(new + 102))]
        ]
    );
}
