//! A ring with a token: whoever has it sends, and then it goes on to the next node.

use std::collections::VecDeque;

/// The state of a ring of nodes, and what waits at each for the token. Where the token is follows from when and
/// where it was last let go: it is moved by no event.
#[derive(Clone, Debug)]
pub struct Ring<P> {
    waiting: Vec<VecDeque<P>>,
    /// Time once around.
    round_ps: u64,
    /// When, and from which node, the token was let go last; `None` while somebody has it.
    free: Option<(u64, u32)>,
    /// Counts what makes an announced coming of the token void.
    generation: u32,
    /// Where it is to come next.
    next: u32,
}

impl<P> Ring<P> {
    /// A ring on which the token leaves the first node at time 0.
    pub fn new(nodes: u32, round_ps: u64) -> Self {
        Ring {
            waiting: (0..nodes).map(|_| VecDeque::new()).collect(),
            round_ps,
            free: Some((0, 0)),
            generation: 0,
            next: 0,
        }
    }

    /// Time from a node to the next one of this number, downstream.
    pub fn way_ps(&self, from: u32, to: u32) -> u64 {
        let nodes = self.waiting.len() as u32;
        let hops = (to + nodes - from) % nodes;
        self.round_ps * u64::from(hops) / u64::from(nodes)
    }

    /// Something waits for the token at a node.
    pub fn push(&mut self, node: u32, parcel: P) {
        self.waiting[node as usize].push_back(parcel);
    }

    /// When the token comes to a node where something waits, and what announces it; what was announced before is
    /// void.
    pub fn next_token(&mut self, now_ps: u64) -> Option<(u64, u32)> {
        let (free_ps, from) = self.free?;
        let nodes = (0..).zip(&self.waiting).filter(|(_, waiting)| !waiting.is_empty());
        let comes = nodes.map(|(node, _)| {
            let first_ps = free_ps + self.way_ps(from, node);
            let late_ps = now_ps.saturating_sub(first_ps);
            let rounds = if self.round_ps == 0 { 0 } else { late_ps.div_ceil(self.round_ps) };
            ((first_ps + rounds * self.round_ps).max(now_ps), node)
        });
        let (at_ps, node) = comes.min()?;
        self.generation = self.generation.wrapping_add(1);
        self.next = node;
        Some((at_ps, self.generation))
    }

    /// Whether what was announced still is to come.
    pub fn is_current(&self, generation: u32) -> bool {
        self.generation == generation && self.free.is_some()
    }

    /// The token is where it was announced: the node, and what it sends.
    pub fn take(&mut self) -> Option<(u32, P)> {
        let parcel = self.waiting[self.next as usize].pop_front()?;
        self.free = None;
        Some((self.next, parcel))
    }

    /// A node lets the token go.
    pub fn release(&mut self, now_ps: u64, node: u32) {
        self.free = Some((now_ps, node));
    }
}
