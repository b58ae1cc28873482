//! Which accesses have an address that was made of what the thread's last load gave.
//!
//! Within a block that is known as it is translated. What is carried from block to block is the set of
//! registers that have been made of the last load, by any number of instructions; the thread's slot holds it.
//! Only these change or read it as the program runs: the last load of a block, whose callback sets it to what
//! is made of that load up to the block's end; accesses up to the first load of a block, whose addresses are
//! of registers that the block did not make itself; and, of blocks without a load, the last store, or the
//! block itself where it has none, if they move values between registers.
//!
//! Flags are taken for lost at the end of a block: compilers do not keep them for what is made of them.

use super::registers::{FLAGS, Registers, Set};
use crate::capture::{Followed, guarded};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// What is known of an instruction's accesses when it is translated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// The first depends on the last load, whatever there was before the block.
    pub dependent: bool,
    /// What else is to be done as it runs.
    plan: Option<Plan>,
}

/// What is to be done as an access runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Nothing.
    None,
    /// What is told with the access.
    Told(Told),
    /// What the edge of this number says.
    Edge(u32),
}

/// A plan that fits beside other things into 48 bits: 16 for general registers of an address, 32 of general and of the
/// first vector registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// The access depends on the last load where one of these has been made of it.
    pub address: u16,
    /// What has been made of the last load from now on, if that changes.
    pub set: Option<u32>,
    /// The instruction stores, too, and that does not depend on its own load.
    pub updates: bool,
}

/// No edge.
pub const NO_EDGE: u32 = 0;
/// Bits of an edge's number.
pub const EDGE_BITS: u32 = 18;

/// What an access, or a block without any, does with the set of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Plan {
    /// The access depends on the last load where the set has one of these.
    address: Set,
    /// The instruction's further accesses, of other places, do not: it has loaded before them.
    first_alone: bool,
    /// That is so because it stores then, once.
    updates: bool,
    /// What stays of the set.
    kept: Set,
    /// What comes to it.
    set: Set,
    /// Where the set has one of the first, the second come to it.
    moves: Vec<(Set, Set)>,
}

impl Access {
    /// What is to be done, where 48 bits can be told with the access.
    pub fn way(&self) -> Way {
        match &self.plan {
            None => Way::None,
            Some(plan) => plan.told().map_or_else(|| self.edge_way(), Way::Told),
        }
    }

    /// What is to be done, where only a number can.
    pub fn edge_way(&self) -> Way {
        match self.plan.clone().map_or(NO_EDGE, number) {
            NO_EDGE => Way::None,
            edge => Way::Edge(edge),
        }
    }
}

impl Plan {
    fn told(&self) -> Option<Told> {
        if self.first_alone && !self.updates || !self.moves.is_empty() {
            return None;
        }
        let set = match (self.kept, self.set) {
            (Set::MAX, 0) if !self.updates => None,
            (0, set) => Some(u32::try_from(set).ok()?),
            _ => return None,
        };
        Some(Told { address: u16::try_from(self.address).ok()?, set, updates: self.updates })
    }

    const NEITHER: Plan = Plan {
        address: 0,
        first_alone: false,
        updates: false,
        kept: Set::MAX,
        set: 0,
        moves: Vec::new(),
    };
}

/// A plan that callbacks find by its number.
struct Edge {
    address: AtomicU64,
    kept: AtomicU64,
    set: AtomicU64,
    /// Null where there are none.
    moves: AtomicPtr<Vec<(Set, Set)>>,
    first_alone: AtomicBool,
}

impl Edge {
    const fn new() -> Edge {
        Edge {
            address: AtomicU64::new(0),
            kept: AtomicU64::new(0),
            set: AtomicU64::new(0),
            moves: AtomicPtr::new(std::ptr::null_mut()),
            first_alone: AtomicBool::new(false),
        }
    }
}

/// Different plans of a program are few: far fewer than its instructions.
static EDGES: [Edge; 1 << EDGE_BITS] = [const { Edge::new() }; 1 << EDGE_BITS];
static KNOWN: Mutex<Option<HashMap<Plan, u32>>> = Mutex::new(None);
/// There was no number for a plan, and it has been said.
static WITHOUT: AtomicBool = AtomicBool::new(false);

/// The number of a plan. Where there are no more of them it is that of none, and its accesses are said to depend on nothing.
fn number(plan: Plan) -> u32 {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    let next = known.len() + 1;
    if let Some(number) = known.get(&plan) {
        return *number;
    }
    let Some(edge) = EDGES.get(next) else {
        if !WITHOUT.swap(true, Ordering::Relaxed) {
            guarded(|recorder| {
                recorder.publish_notice(
                    "the program has more code than its registers can be followed \
                                         through: some loads that depend on others are not told",
                );
            });
        }
        return NO_EDGE;
    };
    edge.address.store(plan.address, Ordering::Relaxed);
    edge.kept.store(plan.kept, Ordering::Relaxed);
    edge.set.store(plan.set, Ordering::Relaxed);
    edge.first_alone.store(plan.first_alone, Ordering::Relaxed);
    if !plan.moves.is_empty() {
        // As long as code may run that names it: to the end.
        edge.moves.store(Box::into_raw(Box::new(plan.moves.clone())), Ordering::Relaxed);
    }
    known.insert(plan, next as u32);
    next as u32
}

impl Followed {
    /// The first access of an instruction: whether it depends on the last load.
    #[inline(always)]
    pub fn access(&mut self, edge: u32, dependent: bool) -> bool {
        let Some(found) = EDGES.get(edge as usize) else { return dependent };
        let dependent = dependent || self.made & found.address.load(Ordering::Relaxed) != 0;
        self.further = dependent && !found.first_alone.load(Ordering::Relaxed);
        self.go_on(found);
        dependent
    }

    /// Whether one of the registers of an address has been made of the last load.
    #[inline(always)]
    pub fn is_made(&self, address: u16) -> bool {
        self.made & Set::from(address) != 0
    }

    /// A load has been done, of which these are made.
    #[inline(always)]
    pub fn set(&mut self, made: u32) {
        self.made = Set::from(made);
    }

    /// A block without accesses has run.
    #[inline(always)]
    pub fn pass(&mut self, edge: u32) {
        if self.made != 0
            && let Some(found) = EDGES.get(edge as usize)
        {
            self.go_on(found);
        }
    }

    #[inline(always)]
    fn go_on(&mut self, edge: &Edge) {
        let before = self.made;
        self.made = before & edge.kept.load(Ordering::Relaxed) | edge.set.load(Ordering::Relaxed);
        // SAFETY: null, or a list that is never freed; it was written before the code that names it.
        let moves = unsafe { edge.moves.load(Ordering::Relaxed).as_ref() };
        for (from, to) in moves.into_iter().flatten() {
            if before & from != 0 {
                self.made |= to;
            }
        }
    }
}

/// What a block's instructions do with values of the last load, by their registers.
pub struct BlockPlan {
    /// For each instruction.
    pub accesses: Vec<Access>,
    /// What the block does that has no access by which to do it; [`NO_EDGE`] if nothing.
    pub edge: u32,
}

impl BlockPlan {
    /// Plans a block.
    pub fn of(instructions: &[Registers]) -> BlockPlan {
        let Plans { accesses, block } = plan(instructions);
        BlockPlan { accesses, edge: block.map_or(NO_EDGE, number) }
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Plans {
    /// For each instruction.
    accesses: Vec<Access>,
    block: Option<Plan>,
}

fn plan(instructions: &[Registers]) -> Plans {
    let mut accesses = vec![Access::default(); instructions.len()];
    // What an instruction does behind its own load does not depend on that.
    let none = |one: &Registers| {
        let first_alone = one.loads && (one.stores || one.conditional);
        let updates = first_alone && !one.conditional;
        Plan { first_alone, updates, ..Plan::NEITHER }
    };
    let mut before = Before::new();
    let mut since_load = None;
    for (one, access) in instructions.iter().zip(&mut accesses) {
        let address = match since_load {
            Some(made) => {
                access.dependent = one.address & made != 0;
                0
            }
            None => before.of(one.address),
        };
        if address != 0 || access.dependent && none(one).first_alone {
            access.plan = Some(Plan { address, ..none(one) });
        }
        match &mut since_load {
            _ if one.loads => since_load = Some(made_by(one)),
            Some(made) => *made = passed_on(one, *made),
            None => before.take(one),
        }
    }
    let last = instructions.iter().rposition(|one| one.loads && !one.conditional);
    let first = instructions.iter().position(|one| one.loads);
    // What may load, and may not, behind the last that does.
    for number in first.map_or(0..0, |first| last.unwrap_or(first)..instructions.len()) {
        let one = &instructions[number];
        if one.loads {
            let rest = &instructions[number + 1..];
            let made = rest.iter().fold(made_by(one), |made, one| passed_on(one, made));
            let plan = accesses[number].plan.get_or_insert_with(|| none(one));
            (plan.kept, plan.set) = (0, made & !FLAGS);
        }
    }
    let mut block = None;
    if let (None, Some((kept, moves))) = (first, before.change()) {
        let store = instructions.iter().rposition(|one| one.stores && !one.conditional);
        let at = store.map_or(&mut block, |store| &mut accesses[store].plan);
        let plan = at.get_or_insert(Plan::NEITHER);
        (plan.kept, plan.moves) = (kept, moves);
    }
    Plans { accesses, block }
}

/// What a load makes of what it loads.
fn made_by(one: &Registers) -> Set {
    one.flows.iter().filter(|flow| flow.of_load).fold(0, |made, flow| made | flow.to)
}

/// What has been made of the last load after an instruction, of which `made` had been before it.
fn passed_on(one: &Registers, made: Set) -> Set {
    one.flows.iter().fold(made, |after, flow| {
        if flow.from & made != 0 { after | flow.to } else { after & !flow.to }
    })
}

/// Of which registers, as they were at the block's beginning, each has been made.
struct Before {
    of: [Set; Set::BITS as usize],
}

impl Before {
    fn new() -> Before {
        Before {
            of: std::array::from_fn(
                |register| if 1 << register == FLAGS { 0 } else { 1 << register },
            ),
        }
    }

    /// Of which registers these have been made.
    fn of(&self, registers: Set) -> Set {
        numbers(registers).fold(0, |all, register| all | self.of[register])
    }

    fn take(&mut self, one: &Registers) {
        let made = one.flows.map(|flow| self.of(flow.from));
        for (flow, made) in one.flows.iter().zip(made) {
            numbers(flow.to).for_each(|register| self.of[register] = made);
        }
    }

    /// What stays, and what moves; `None` where all stays.
    fn change(&self) -> Option<(Set, Vec<(Set, Set)>)> {
        let mut kept = Set::MAX;
        let mut moves: Vec<(Set, Set)> = Vec::new();
        for (register, of) in self.of.iter().enumerate() {
            let own = 1 << register;
            if own == FLAGS || *of == own {
                continue;
            }
            kept &= !own;
            match moves.iter_mut().find(|(from, _)| from == of) {
                Some((_, to)) => *to |= own,
                None if *of == 0 => {}
                None => moves.push((*of, own)),
            }
        }
        (kept != Set::MAX).then_some((kept, moves))
    }
}

/// The numbers of the registers of a set.
fn numbers(mut registers: Set) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let number = registers.trailing_zeros();
        registers &= registers.wrapping_sub(1);
        (number < Set::BITS).then_some(number as usize)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The instructions of a test, each as its bytes.
    fn registers(code: &[&[u8]]) -> Vec<Registers> {
        code.iter().map(|bytes| Registers::of(bytes)).collect()
    }

    /// Runs blocks, each a list of instructions, and says for each access of each, the first of its instruction,
    /// whether it depends on the load before it.
    fn run(blocks: &[&[&[u8]]]) -> Vec<Vec<bool>> {
        let mut followed = Followed::default();
        let one = |block: &&[&[u8]]| {
            let instructions = registers(block);
            let plan = BlockPlan::of(&instructions);
            if plan.edge != NO_EDGE {
                followed.pass(plan.edge);
            }
            let accesses = instructions.iter().zip(&plan.accesses);
            accesses
                .filter(|(one, _)| one.loads || one.stores)
                .map(|(_, access)| {
                    // By both ways, which have to agree.
                    let mut told = followed;
                    let by_edge = follow(&mut followed, access.edge_way(), access.dependent);
                    let by_way = follow(&mut told, access.way(), access.dependent);
                    assert_eq!((by_way, told.made), (by_edge, followed.made));
                    by_way
                })
                .collect()
        };
        blocks.iter().map(one).collect()
    }

    /// The first access of an instruction, as the callbacks do it.
    fn follow(followed: &mut Followed, way: Way, dependent: bool) -> bool {
        match way {
            Way::None => dependent,
            Way::Told(Told { address, set, .. }) => {
                let dependent = dependent || followed.is_made(address);
                set.inspect(|set| followed.set(*set));
                dependent
            }
            Way::Edge(edge) => followed.access(edge, dependent),
        }
    }

    const CHASE: &[u8] = &[0x48, 0x8b, 0x00]; // mov (%rax),%rax
    const LOAD: &[u8] = &[0x48, 0x8b, 0x06]; // mov (%rsi),%rax
    const STORE: &[u8] = &[0x48, 0x89, 0x07]; // mov %rax,(%rdi)
    const STORE_AT: &[u8] = &[0x48, 0x89, 0x08]; // mov %rcx,(%rax)
    const LOAD_AT_RCX: &[u8] = &[0x48, 0x8b, 0x11]; // mov (%rcx),%rdx
    const MOVE: &[u8] = &[0x48, 0x89, 0xc1]; // mov %rax,%rcx
    const ZERO: &[u8] = &[0x31, 0xc0]; // xor %eax,%eax
    const NEXT: &[u8] = &[0x48, 0x83, 0xc6, 8]; // add $8,%rsi
    const JUMP: &[u8] = &[0x75, 0xf0]; // jne
    const UPDATE_AT: &[u8] = &[0x48, 0x01, 0x08]; // add %rcx,(%rax)
    const REPEAT: &[u8] = &[0xf3, 0xa4]; // rep movsb
    const RETURN: &[u8] = &[0xc3]; // ret

    #[test]
    fn each_step_of_a_chase_depends_on_the_one_before() {
        let block: &[&[u8]] = &[CHASE, NEXT, JUMP];
        assert_eq!(run(&[block; 3]), [[false], [true], [true]]);
        assert_eq!(run(&[&[CHASE, CHASE, CHASE]]), [[false, true, true]]);
    }

    #[test]
    fn loads_in_order_depend_on_nothing() {
        let block: &[&[u8]] = &[LOAD, NEXT, JUMP];
        assert_eq!(run(&[block; 3]), [[false]; 3]);
    }

    #[test]
    fn a_stores_address_counts_and_its_data_do_not() {
        assert_eq!(run(&[&[LOAD, STORE, STORE_AT]]), [[false, false, true]]);
        assert_eq!(run(&[&[LOAD], &[STORE], &[STORE_AT]]), [[false], [false], [true]]);
    }

    #[test]
    fn values_move_through_blocks_without_accesses_and_go_where_they_are_overwritten() {
        assert_eq!(run(&[&[LOAD], &[MOVE], &[LOAD_AT_RCX]]), [vec![false], vec![], vec![true]]);
        assert_eq!(run(&[&[LOAD], &[ZERO], &[CHASE]]), [vec![false], vec![], vec![false]]);
        assert_eq!(
            run(&[&[LOAD], &[MOVE, STORE, ZERO], &[LOAD_AT_RCX]]),
            [[false], [false], [true]]
        );
        assert_eq!(run(&[&[LOAD], &[STORE_AT, ZERO], &[CHASE]]), [[false], [true], [false]]);
    }

    #[test]
    fn only_the_last_load_counts() {
        // The second load comes between, and what it gives is another register.
        assert_eq!(run(&[&[LOAD, LOAD_AT_RCX, CHASE]]), [[false; 3]]);
        assert_eq!(run(&[&[LOAD], &[RETURN], &[CHASE]]), [[false]; 3]);
    }

    #[test]
    fn an_update_depends_by_its_load_alone_and_so_do_repetitions() {
        let plan = BlockPlan::of(&registers(&[LOAD, UPDATE_AT]));
        let mut followed = Followed::default();
        let update = &plan.accesses[1];
        assert!(matches!(update.way(), Way::Told(Told { updates: true, .. })));
        assert!(follow(&mut followed, update.edge_way(), update.dependent));
        assert!(!followed.further, "its store");
        let plan = BlockPlan::of(&registers(&[REPEAT]));
        let mut followed = Followed { made: Registers::of(REPEAT).address, further: false };
        let repeat = &plan.accesses[0];
        assert!(follow(&mut followed, repeat.way(), repeat.dependent));
        assert!(!followed.further);
    }

    #[test]
    fn what_may_load_nothing_leaves_what_was_loaded_before() {
        let plan = plan(&registers(&[LOAD, REPEAT]));
        let sets: Vec<Option<Set>> =
            plan.accesses.iter().map(|one| one.plan.as_ref().map(|plan| plan.set)).collect();
        assert_eq!(sets, [Some(Registers::of(CHASE).address), Some(0)]);
    }

    #[test]
    fn a_loop_that_moves_nothing_costs_no_callback() {
        let nothing = Access::default();
        let plans = plan(&registers(&[NEXT, JUMP]));
        assert_eq!(plans, Plans { accesses: vec![nothing.clone(), nothing.clone()], block: None });
        let plans = plan(&registers(&[STORE, NEXT, JUMP]));
        let address = Registers::of(STORE).address as u16;
        let told = Told { address, set: None, updates: false };
        assert_eq!(plans.accesses[0].way(), Way::Told(told));
        assert_eq!(plans.accesses[1..], [nothing.clone(), nothing]);
        assert_eq!(plans.block, None);
    }
}
