//! Drops at devices, and where there is no room: of buffers, of headroom.

use super::*;

/// A transmit queue that takes nothing, or takes all and fails.
pub(super) struct Bad {
    pub(super) refuses: bool,
}

impl TxQueue for Bad {
    fn transmit(&mut self, pool: &mut Pool, packets: &[BufferIndex], _now: u64) -> TxBurst {
        if !self.refuses {
            return TxBurst::default();
        }
        pool.free_bulk(packets);
        TxBurst {
            taken: packets.len(),
            errors: packets.len(),
        }
    }
}

/// A receive queue that has only bad news.
pub(super) struct News(RxBurst);

impl RxQueue for News {
    fn poll(&mut self, _pool: &mut Pool, _frame: &mut Frame, _now: u64) -> RxBurst {
        std::mem::take(&mut self.0)
    }
}

pub(super) fn before_receive(reason: DropReason, news: RxBurst) -> Case {
    Case {
        reason,
        node: None,
        ports: (101, 0),
        lab: Lab::new(),
        act: Box::new(move |lab| {
            lab.harness.set_rx("pg-input", 1, Box::new(News(news)));
            lab.wait(1);
        }),
        shows: Shows::Nothing,
    }
}

/// What leaves by interface 2 of a packet that came in to [`FAR`].
pub(super) fn left() -> Vec<u8> {
    udp(from_router(2), HOST, FAR).ttl(63).build()
}

pub(super) fn devices() -> Vec<Case> {
    use DropReason as D;
    let n = |n| RxBurst {
        missed: n,
        ..RxBurst::default()
    };
    let mut refused = Lab::new();
    refused
        .harness
        .set_tx(2, Box::new(Bad { refuses: true }), 1514);
    let mut full = Lab::new();
    full.harness
        .set_tx(2, Box::new(Bad { refuses: false }), 1514);
    let mut down = Lab::new();
    down.harness.set_up(2, false);
    let mut gone = Lab::new();
    gone.edit(1, |view, _| *view = Default::default());
    let mut narrow = with_peer(2);
    narrow.harness.add_interface(2, 80);
    // What leaves by interface 2 goes out by interface 2.
    let mut circle = Lab::new();
    circle.harness.add_virtual(2, "interface-output", 1514);
    vec![
        before_receive(D::RxMissed, n(3)),
        before_receive(
            D::RxNoBuffer,
            RxBurst {
                no_buffer: 1,
                ..n(0)
            },
        ),
        before_receive(D::RxError, RxBurst { errors: 2, ..n(0) }),
        Case {
            ports: (0, 102),
            node: None,
            ..Case::frame(D::TxError, "", refused, to(FAR).build()).shows(Shows::Nothing)
        },
        Case::frame(D::TxQueueFull, "eth2-tx", full, to(FAR).build())
            .leaving()
            .shows(Shows::Bytes(1, left())),
        Case::frame(D::InterfaceDown, "eth2-tx", down, to(FAR).build())
            .leaving()
            .shows(Shows::Bytes(1, left())),
        Case::frame(D::InterfaceGone, "ethernet-input", gone, to(FAR).build()),
        Case::frame(D::LinkMtuExceeded, "eth2-tx", narrow, to(FAR).build()).leaving(),
        Case::frame(D::NestedTooDeep, "eth2-tx", circle, to(FAR).build())
            .leaving()
            .shows(Shows::Bytes(1, left())),
        no_buffers(),
        no_headroom(),
    ]
}

/// Most buffers are in use elsewhere when a packet must be cut into fragments.
pub(super) fn no_buffers() -> Case {
    let lab = with_route(|lab| lab.adj4(2, host4(2), 576));
    let frame = to([10, 66, 0, 1]).total_len(1400).build();
    let sent = frame.clone();
    Case::frame(DropReason::NoBufferSpace, "ip4-frag", lab, frame).act(move |lab| {
        let pool = &mut lab.harness.dispatcher.pool;
        let held: Vec<_> = (0..BUFFERS - 2).map(|_| pool.alloc().unwrap()).collect();
        lab.harness.put("ethernet-input", 1, &[sent], lab.now);
        lab.harness.dispatcher.pool.free_bulk(&held);
        lab.harness.conserved().unwrap();
    })
}

/// A driver that leaves no room in front of its frames, and four labels to push.
pub(super) fn no_headroom() -> Case {
    let lab = with_route(|lab| {
        let out = lab.adj_mpls(2, MTU);
        lab.impose(&[17, 18, 19, 20], Payload::Ip4, TtlMode::Uniform, out)
    });
    // The imposition has counted the packet's TTL down by then.
    let shown = to([10, 66, 0, 1]).ttl(63).build();
    let frame = to([10, 66, 0, 1]).build();
    let case = Case::frame(
        DropReason::NoHeadroom,
        "mpls-label-imposition",
        lab,
        frame.clone(),
    );
    case.shows(Shows::Bytes(1, shown)).act(move |lab| {
        let d = &mut lab.harness.dispatcher;
        let b = d.pool.packet_from(&frame, 1).unwrap();
        let (m, room) = d.pool.parts_mut(b);
        (m.data, m.l2, m.l3) = (0, 0, 0);
        room[..frame.len()].copy_from_slice(&frame);
        let input = d.graph().node("ethernet-input").unwrap();
        d.enqueue(input, &[b], 1);
        d.run();
        lab.harness.conserved().unwrap();
    })
}
