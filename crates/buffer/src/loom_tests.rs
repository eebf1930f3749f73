//! Every interleaving of packets that go from one worker's pool to another's.
//!
//! A pool is never shared: it is plain memory behind `&mut`, and one worker has it for good. What crosses
//! threads is the pool itself, once, when its worker starts, and copies of packets through a ring. Both are
//! modelled here: the bytes arrive whole and in order, and each pool accounts for its own buffers exactly,
//! whoever runs first and whether or not the ring has room.

use parshall_ring::ring;

use crate::Pool;

#[test]
fn packets_are_copied_from_pool_to_pool_and_no_buffer_changes_hands() {
    loom::model(|| {
        let (mut out, mut inbox) = ring::<(usize, [u8; 8])>(2);
        let mut mine = Pool::new(4).unwrap();
        let mut theirs = Pool::new(2).unwrap();
        let owner = loom::thread::spawn(move || {
            let mut seen = 0;
            for _ in 0..2 {
                let made = inbox.read(|(len, bytes)| theirs.packet_from(&bytes[..*len], 1));
                if let Some(b) = made.flatten() {
                    let first = theirs.bytes(b)[0];
                    assert!(theirs.bytes(b) == [first; 8] && first > seen);
                    seen = first;
                    theirs.free(b);
                }
            }
            assert_eq!(theirs.available(), theirs.capacity());
            inbox
        });
        let mut lost = 0;
        for i in 1..=3u8 {
            let b = mine.packet_from(&[i; 8], 1).unwrap();
            let room = out.write(|(len, bytes)| *len = mine.copy_out(b, bytes));
            lost += u64::from(!room);
            mine.free(b);
        }
        assert_eq!(mine.available(), mine.capacity());
        let inbox = owner.join().unwrap();
        assert_eq!(inbox.overflows(), lost);
    });
}
