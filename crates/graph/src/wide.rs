//! One source, several instruction sets: the widest the CPU has is chosen once, when the nodes are made.
//!
//! A binary must run on any CPU of its architecture, yet loops over a frame gain much from wide vectors.
//! So the work of a [`WideNode`] is compiled once for each level of the architecture, and [`wide`] makes
//! the node whose virtual table leads to the one that fits. Nothing is asked per frame.
//!
//! Usually the compiler's own vectors do. Where they do not, a body may use the architecture's intrinsics
//! behind `if I::AVX2`: the question is answered when the level is compiled.

use std::any::Any;
use std::marker::PhantomData;

use parshall_buffer::Frame;

use crate::node::{Ctx, Dispatch, Node};

/// An instruction set to compile for. Above its own architecture's base, every constant is false.
pub trait Isa: Send + 'static {
    /// 256-bit integer vectors and the bit manipulation that came with them (x86-64-v3).
    const AVX2: bool;
    /// 512-bit vectors with masks (x86-64-v4).
    const AVX512: bool;
}

/// What every CPU of the architecture has: x86-64-v2, or NEON.
pub struct Base;
/// x86-64-v3.
#[cfg(target_arch = "x86_64")]
pub struct V3;
/// x86-64-v4.
#[cfg(target_arch = "x86_64")]
pub struct V4;

impl Isa for Base {
    const AVX2: bool = false;
    const AVX512: bool = false;
}
#[cfg(target_arch = "x86_64")]
impl Isa for V3 {
    const AVX2: bool = true;
    const AVX512: bool = false;
}
#[cfg(target_arch = "x86_64")]
impl Isa for V4 {
    const AVX2: bool = true;
    const AVX512: bool = true;
}

/// A node whose work is compiled for each level.
pub trait WideNode: Send + 'static {
    /// As [`Node::process`]. To be `#[inline(always)]`, as everything hot that it calls: only what is
    /// inlined is compiled for the level.
    fn process<I: Isa>(&mut self, cx: &mut Ctx<'_>, frame: &mut Frame) -> Dispatch;

    /// Whether the node has a [`pass`](Self::pass) of its own: others need none at each level.
    const IN_PASSING: bool = false;

    /// As [`Node::pass`], and `#[inline(always)]` too.
    #[inline(always)]
    fn pass<I: Isa>(
        &mut self,
        _cx: &mut Ctx<'_>,
        _rx_if: u32,
        _passed: u64,
        _frame: Option<&mut Frame>,
    ) -> u64 {
        0
    }

    /// As [`Node::message`].
    fn message(&mut self, _cx: &mut Ctx<'_>, _message: &mut (dyn Any + Send)) {}
}

/// The node, compiled for the widest level that this CPU has.
pub fn wide<N: WideNode>(node: N) -> Box<dyn Node> {
    #[cfg(target_arch = "x86_64")]
    {
        if has_v4() {
            return Box::new(Wide::<N, V4>(node, PhantomData));
        }
        if has_v3() {
            return Box::new(Wide::<N, V3>(node, PhantomData));
        }
    }
    Box::new(Wide::<N, Base>(node, PhantomData))
}

/// Whether the CPU has all that [`V3`] is compiled for.
#[cfg(target_arch = "x86_64")]
pub fn has_v3() -> bool {
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("lzcnt")
        && is_x86_feature_detected!("movbe")
}

/// Whether the CPU has all that [`V4`] is compiled for.
#[cfg(target_arch = "x86_64")]
pub fn has_v4() -> bool {
    has_v3()
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
}

/// What [`Node::pass`] does by itself: shows the frame, lends nothing.
fn unlent(node: &mut dyn Node, cx: &mut Ctx<'_>, frame: Option<&mut Frame>) -> u64 {
    if let Some(frame) = frame {
        node.process(cx, frame);
    }
    0
}

/// A node at one level; made by [`wide`] only, which has asked the CPU.
struct Wide<N, I>(N, PhantomData<I>);

impl<N: WideNode> Node for Wide<N, Base> {
    fn process(&mut self, cx: &mut Ctx<'_>, frame: &mut Frame) -> Dispatch {
        self.0.process::<Base>(cx, frame)
    }
    fn pass(
        &mut self,
        cx: &mut Ctx<'_>,
        rx_if: u32,
        passed: u64,
        frame: Option<&mut Frame>,
    ) -> u64 {
        if N::IN_PASSING {
            return self.0.pass::<Base>(cx, rx_if, passed, frame);
        }
        unlent(self, cx, frame)
    }
    fn message(&mut self, cx: &mut Ctx<'_>, message: &mut (dyn Any + Send)) {
        self.0.message(cx, message);
    }
}

#[cfg(target_arch = "x86_64")]
macro_rules! at_level {
    ($level:ident, $features:literal) => {
        impl<N: WideNode> Node for Wide<N, $level> {
            fn process(&mut self, cx: &mut Ctx<'_>, frame: &mut Frame) -> Dispatch {
                #[target_feature(enable = $features)]
                fn body<N: WideNode>(n: &mut N, cx: &mut Ctx<'_>, f: &mut Frame) -> Dispatch {
                    n.process::<$level>(cx, f)
                }
                // SAFETY: `wide` made this type, after it saw these features on the CPU.
                unsafe { body(&mut self.0, cx, frame) }
            }
            fn pass(
                &mut self,
                cx: &mut Ctx<'_>,
                rx_if: u32,
                passed: u64,
                frame: Option<&mut Frame>,
            ) -> u64 {
                #[target_feature(enable = $features)]
                fn body<N: WideNode>(
                    n: &mut N,
                    cx: &mut Ctx<'_>,
                    i: u32,
                    p: u64,
                    f: Option<&mut Frame>,
                ) -> u64 {
                    n.pass::<$level>(cx, i, p, f)
                }
                if N::IN_PASSING {
                    // SAFETY: as in `process`.
                    return unsafe { body(&mut self.0, cx, rx_if, passed, frame) };
                }
                unlent(self, cx, frame)
            }
            fn message(&mut self, cx: &mut Ctx<'_>, message: &mut (dyn Any + Send)) {
                self.0.message(cx, message);
            }
        }
    };
}
#[cfg(target_arch = "x86_64")]
at_level!(V3, "avx2,bmi1,bmi2,lzcnt,movbe");
#[cfg(target_arch = "x86_64")]
at_level!(
    V4,
    "avx2,bmi1,bmi2,lzcnt,movbe,avx512f,avx512bw,avx512dq,avx512vl"
);
