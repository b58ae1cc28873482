//! On which load the address of an access depends: the latest of those of which its registers were made.
//!
//! Loads are counted as they are noted. What is carried from block to block is, for each general register, the *reach* of
//! the latest load of which it was made, by any number of instructions: [`MOST_DEPENDENCE`] as long as that is the thread's
//! last load, one less with each load behind it, and 0 where it is out of reach, or there was none.
//!
//! Within a block it is known as it is translated how many loads lie between one of its own and an access. Accesses
//! whose registers come from before the block look into what is carried. The last access of a block changes that to what
//! the whole block makes of it; accesses up to it, that included, find it as it was at the block's beginning. A block
//! without accesses has a callback of its own, if it moves values between registers.
//!
//! An instruction that varies in how often it loads, if at all, begins a part of its block, for which all this holds as
//! for a block: nothing that was made before it has a known distance behind it.
//!
//! Flags, vectors and masks are taken for lost at the end of a part. Of flags compilers keep nothing, and addresses are
//! seldom made of a vector that was loaded in another block, where to follow vectors would cost every loop of floating point.

use super::registers::{RSP, Registers, Set};
use crate::capture::{Followed, guarded};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use tierscope_workload::op::MOST_DEPENDENCE;

/// What is known of an instruction's accesses when it is translated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Loads back to that on which the first depends, whatever there was before the block; 0 if that is not known.
    pub dependence: u8,
    /// What else is to be done as it runs.
    plan: Option<Plan>,
    /// What is to be done before the instruction, as no access does it.
    before: Option<Plan>,
}

/// What is to be done as an access runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Nothing.
    None,
    /// To see what its address is made of: two registers, of four bits each.
    Read(u8),
    /// That, and to set registers as an edge says, which has no moves.
    Set(u32),
    /// What the edge of this number says.
    Edge(u32),
}

/// What is to be done before an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// Nothing.
    Nothing,
    /// These moves, as an edge has them.
    Moves(u32),
    /// What the edge of this number says.
    Edge(u32),
}

/// No edge.
pub const NO_EDGE: u32 = 0;
/// Bits of an edge's number.
pub const EDGE_BITS: u32 = 18;

/// What an access, or an instruction without any, does with what is known of a thread's registers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Plan {
    /// Of these, as they are before, the address is made.
    address: Set,
    /// The instruction's further accesses are not marked: they come behind its own load, which has waited.
    alone: bool,
    /// Registers whose reach is another now, and which.
    set: Vec<(u8, u8)>,
    /// Registers that are made of others now, and of which, as they were before.
    moves: Vec<(u8, Set)>,
}

impl Access {
    /// What is to be done.
    pub fn way(&self) -> Way {
        let way = self.edge_way();
        match (&self.plan, way) {
            (Some(plan), Way::Edge(edge)) if plan.moves.is_empty() => match two(plan.address) {
                Some(registers) if plan.set.is_empty() && !plan.alone => Way::Read(registers),
                Some(_) => Way::Set(edge),
                None => way,
            },
            _ => way,
        }
    }

    /// What is to be done, where only an edge's number can be told.
    pub fn edge_way(&self) -> Way {
        match self.plan.as_ref().map_or(NO_EDGE, number) {
            NO_EDGE => Way::None,
            edge => Way::Edge(edge),
        }
    }

    /// What is to be done before the instruction.
    pub fn before(&self) -> Before {
        match &self.before {
            None => Before::Nothing,
            Some(plan) => match plan.registers().filter(|_| plan.set.is_empty()) {
                Some(registers) => Before::Moves(registers >> MOVES_SHIFT),
                None => Before::Edge(number(plan)),
            },
        }
    }
}

impl Plan {
    /// What an edge has of the registers of the address and the moves, if it has room for them.
    fn registers(&self) -> Option<u32> {
        let one = |nth: usize| match self.moves.get(nth) {
            None => Some(NO_MOVE),
            Some((to, from)) => Some(u32::from(two(*from)?) << NUMBER_BITS | u32::from(*to)),
        };
        let moves = one(1)? << MOVE_BITS | one(0)?;
        let address = u32::from(two(self.address)?);
        (self.moves.len() <= 2).then_some(moves << MOVES_SHIFT | address)
    }
}

/// General registers are the first.
const GENERAL: usize = 16;
/// The stack pointer: it is made of no load, and so stands where there is no register.
const NONE: u8 = RSP.trailing_zeros() as u8;
/// Bits of a general register's number.
const NUMBER_BITS: u32 = 4;
/// In the place of a reach, which has fewer bits: it stays.
const STAYS: u8 = 0x80;
/// Loads that pass at most before reaches are counted anew: with any reach they are fewer than what stays is told by.
const MOST_PASSED: u64 = 96;
/// Of each byte of a word the highest bit.
const HIGHEST: u64 = u64::from_ne_bytes([STAYS; 8]);

/// A set of two registers at most, as their numbers.
fn two(registers: Set) -> Option<u8> {
    let mut all = numbers(registers);
    let mut next = || all.next().map_or(NONE, |register| register as u8);
    let (one, other, none) = (next(), next(), next());
    (none == NONE).then_some(other << NUMBER_BITS | one)
}

/// A plan that callbacks find by its number.
struct Edge {
    /// From the lowest bits on: two registers of the address; of each of two moves, to which register, and of which two.
    registers: AtomicU32,
    alone: AtomicBool,
    /// The new reach of each register, a byte each.
    reach: [AtomicU64; GENERAL / 8],
    /// Null where all that the plan says has room.
    long: AtomicPtr<Long>,
}

/// In an edge's registers the moves begin here, and so many bits has each.
const MOVES_SHIFT: u32 = 2 * NUMBER_BITS;
const MOVE_BITS: u32 = 3 * NUMBER_BITS;
/// A move that does nothing.
const NO_MOVE: u32 =
    (NONE as u32) << (2 * NUMBER_BITS) | (NONE as u32) << NUMBER_BITS | NONE as u32;

/// What a plan says where an edge has no room for it.
struct Long {
    address: Mask,
    moves: Vec<(u8, Mask)>,
}

/// Of a set of general registers a byte each: all bits of those that are in it.
#[repr(align(16))]
struct Mask([u8; GENERAL]);

impl Mask {
    fn of(registers: Set) -> Mask {
        Mask(std::array::from_fn(
            |register| if registers >> register & 1 == 0 { 0 } else { u8::MAX },
        ))
    }
}

impl Edge {
    const fn new() -> Edge {
        Edge {
            registers: AtomicU32::new(0),
            alone: AtomicBool::new(false),
            reach: [const { AtomicU64::new(0) }; GENERAL / 8],
            long: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    fn tell(&self, plan: &Plan) {
        let mut reach = [STAYS; GENERAL];
        plan.set.iter().for_each(|(register, to)| reach[usize::from(*register)] = *to);
        for (word, bytes) in self.reach.iter().zip(reach.as_chunks().0) {
            word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
        self.alone.store(plan.alone, Ordering::Relaxed);
        if let Some(registers) = plan.registers() {
            return self.registers.store(registers, Ordering::Relaxed);
        }
        let moves = plan.moves.iter().map(|(to, from)| (*to, Mask::of(*from))).collect();
        let long = Long { address: Mask::of(plan.address), moves };
        // As long as code may run that names it: to the end.
        self.long.store(Box::into_raw(Box::new(long)), Ordering::Relaxed);
    }

    #[inline(always)]
    fn long(&self) -> Option<&Long> {
        // SAFETY: null, or what is never freed; it was written before the code that names it.
        unsafe { self.long.load(Ordering::Relaxed).as_ref() }
    }
}

/// Different plans of a program are few: far fewer than its instructions.
static EDGES: [Edge; 1 << EDGE_BITS] = [const { Edge::new() }; 1 << EDGE_BITS];
static KNOWN: Mutex<Option<HashMap<Plan, u32>>> = Mutex::new(None);
/// There was no number for a plan, and it has been said.
static WITHOUT: AtomicBool = AtomicBool::new(false);

/// The number of a plan. Where there are no more of them it is that of none, and its accesses are said to depend on nothing.
fn number(plan: &Plan) -> u32 {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    let next = known.len() + 1;
    if let Some(number) = known.get(plan) {
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
    edge.tell(plan);
    known.insert(plan.clone(), next as u32);
    next as u32
}

impl Followed {
    /// Loads back to that on which an access depends, by registers as `Way::Read` has them. Where there is none it is 0, or
    /// more than [`MOST_DEPENDENCE`].
    #[inline(always)]
    pub fn read(&self, registers: u8) -> u64 {
        let until = |number| self.until[usize::from(number)];
        self.back(until(registers & 15).max(until(registers >> NUMBER_BITS)))
    }

    /// The same of one that is in reach until then.
    #[inline(always)]
    fn back(&self, until: u8) -> u64 {
        self.passed().wrapping_add(u64::from(MOST_DEPENDENCE + 1)).wrapping_sub(until.into())
    }

    /// Loads since reaches are counted.
    #[inline(always)]
    fn passed(&self) -> u64 {
        self.loads.wrapping_sub(self.since)
    }

    /// Does what an edge says that has no moves, at the first access of an instruction, and gives the loads back to that on
    /// which it depends. `None`, and nothing is done, where `access` has to do it.
    #[inline(always)]
    pub fn set(&mut self, edge: u32) -> Option<u64> {
        let edge = EDGES.get(edge as usize).filter(|_| self.passed() <= MOST_PASSED)?;
        let back = self.read(edge.registers.load(Ordering::Relaxed) as u8);
        self.set_reach(edge);
        Some(back)
    }

    /// The loads back to that on which a further access of an instruction depends, of which an edge tells; `None` where
    /// it is not marked at all.
    #[inline(always)]
    pub fn further(&self, edge: u32) -> Option<u64> {
        let edge = EDGES.get(edge as usize).filter(|it| !it.alone.load(Ordering::Relaxed))?;
        Some(self.read(edge.registers.load(Ordering::Relaxed) as u8))
    }

    /// The same of any edge.
    #[inline(always)]
    pub fn access(&mut self, edge: u32) -> u64 {
        let Some(edge) = EDGES.get(edge as usize) else { return 0 };
        if self.passed() > MOST_PASSED {
            self.recount();
        }
        if let Some(long) = edge.long() {
            return self.access_long(edge, long);
        }
        let registers = edge.registers.load(Ordering::Relaxed);
        let back = self.read(registers as u8);
        let moved = self.moved(registers >> MOVES_SHIFT);
        self.set_reach(edge);
        moved.into_iter().for_each(|(to, until)| self.until[to] = until);
        back
    }

    /// Does moves alone.
    #[inline(always)]
    pub fn pass(&mut self, moves: u32) {
        self.moved(moves).into_iter().for_each(|(to, until)| self.until[to] = until);
    }

    /// To which registers moves go, and until when what they move is in reach.
    #[inline(always)]
    fn moved(&self, moves: u32) -> [(usize, u8); 2] {
        [moves, moves >> MOVE_BITS].map(|one| {
            let number = |nth: u32| (one >> (nth * NUMBER_BITS)) as usize % GENERAL;
            (number(0), self.until[number(1)].max(self.until[number(2)]))
        })
    }

    #[inline(never)]
    fn access_long(&mut self, edge: &Edge, long: &Long) -> u64 {
        let before = *self;
        self.set_reach(edge);
        for (to, from) in &long.moves {
            self.until[usize::from(*to)] = before.latest(from);
        }
        before.back(before.latest(&long.address))
    }

    /// Until when the latest load is in reach of which any of these has been made.
    #[inline(always)]
    fn latest(&self, registers: &Mask) -> u8 {
        // All at once, by vectors.
        let among: [u8; GENERAL] = std::array::from_fn(|it| self.until[it] & registers.0[it]);
        among.into_iter().fold(0, u8::max)
    }

    /// Gives registers another reach. At most [`MOST_PASSED`] loads have passed.
    #[inline(always)]
    fn set_reach(&mut self, edge: &Edge) {
        let passed = HIGHEST / 128 * self.passed();
        let reach = edge.reach.each_ref().map(|word| word.load(Ordering::Relaxed));
        for (until, reach) in self.until.as_chunks_mut().0.iter_mut().zip(reach) {
            let stays = below(reach & HIGHEST);
            let after = (reach & !HIGHEST) + passed;
            *until = (u64::from_ne_bytes(*until) & stays | after & !stays).to_ne_bytes();
        }
    }

    /// Counts reaches from now on.
    #[cold]
    fn recount(&mut self) {
        let passed = self.passed().min(u64::from(STAYS - 1)) as u8;
        for until in &mut self.until {
            *until = until.saturating_sub(passed);
        }
        self.since = self.loads;
    }
}

/// Of each byte of which this has the highest bit, the bits below that.
#[inline(always)]
fn below(highest: u64) -> u64 {
    highest - (highest >> 7)
}

/// Plans the instructions of a block, by their registers.
pub fn plan(instructions: &[Registers]) -> Vec<Access> {
    let mut accesses = vec![Access::default(); instructions.len()];
    let mut begin = 0;
    while let Some((_, rest)) = instructions[begin..].split_first() {
        let end = rest.iter().position(|one| one.varies).unwrap_or(rest.len()) + begin + 1;
        plan_part(&instructions[begin..end], instructions.get(end), &mut accesses[begin..]);
        begin = end;
    }
    accesses
}

/// Plans a part of a block, of which the first instruction alone may vary, as does the next behind it; `accesses` go on to the
/// block's end.
fn plan_part(part: &[Registers], next: Option<&Registers>, accesses: &mut [Access]) {
    let last = part.iter().rposition(|one| (one.loads || one.stores) && !one.varies);
    let mut made = [Made::default(); Set::BITS as usize];
    for (register, made) in made.iter_mut().enumerate() {
        made.before = 1 << register & ((1 << GENERAL) - 1);
    }
    // Loads of the part so far, those of an instruction that varies being before it; and where the changes are done.
    let (mut loads, mut loads_there) = (0, 0);
    let known = |one: &Registers, made: &[Made; Set::BITS as usize], loads: i32| {
        let back = Made::of(one.address, made).load.map_or(0, |load| loads + 1 - load);
        u8::try_from(back).ok().filter(|it| *it <= MOST_DEPENDENCE).unwrap_or(0)
    };
    for (number, (one, access)) in part.iter().zip(accesses.iter_mut()).enumerate() {
        let alone = one.loads && (one.stores || one.varies);
        access.dependence = access.dependence.max(known(one, &made, loads));
        let address = if access.dependence == 0 { Made::of(one.address, &made).before } else { 0 };
        if address != 0 || access.dependence != 0 && alone {
            access.plan = Some(Plan { address, alone, ..Plan::default() });
        }
        if last == Some(number) {
            loads_there = loads;
        }
        let counts = one.loads && !one.varies;
        let load = if counts { loads + 1 } else { 0 };
        let values = one.flows.map(|flow| match flow.of_load {
            true => Made { load: Some(load), before: 0 },
            false => Made::of(flow.from, &made),
        });
        for (flow, value) in one.flows.iter().zip(values) {
            numbers(flow.to).for_each(|register| made[register] = value);
        }
        loads += i32::from(counts);
    }
    if let (Some(next), Some(access)) = (next, accesses.get_mut(part.len())) {
        access.dependence = known(next, &made, loads);
    }
    let (mut set, mut moves) = (Vec::new(), Vec::new());
    let varies = part.first().is_some_and(|first| first.varies);
    if varies && accesses.len() == 1 {
        loads_there = -1;
    }
    for (register, made) in (0u8..).zip(&made[..GENERAL]) {
        match (made.load, made.before) {
            (Some(load), _) => {
                let reach = i32::from(MOST_DEPENDENCE) + load - loads_there;
                set.push((register, u8::try_from(reach).unwrap_or(0)));
            }
            (None, 0) => set.push((register, 0)),
            (None, before) if before != 1 << register => moves.push((register, before)),
            _ => {}
        }
    }
    if set.is_empty() && moves.is_empty() {
        return;
    }
    let at = match last {
        Some(last) => &mut accesses[last].plan,
        None if !varies => &mut accesses[0].before,
        None if accesses.len() > 1 => &mut accesses[1].before,
        None => &mut accesses[0].plan,
    };
    let plan = at.get_or_insert_default();
    (plan.set, plan.moves) = (set, moves);
}

/// Of what a register has been made in a part of a block.
#[derive(Clone, Copy, Default)]
struct Made {
    /// The latest load of the part, where there is one; 0 is the last before it.
    load: Option<i32>,
    /// Otherwise registers, as they were where the part begins.
    before: Set,
}

impl Made {
    /// Of what all of these have been made.
    fn of(registers: Set, made: &[Made; Set::BITS as usize]) -> Made {
        let all = || numbers(registers).map(|register| made[register]);
        match all().filter_map(|one| one.load).max() {
            None => Made { load: None, before: all().fold(0, |before, one| before | one.before) },
            load => Made { load, before: 0 },
        }
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
    use tierscope_workload::Op;

    /// The instructions of a test, each as its bytes.
    fn registers(code: &[&[u8]]) -> Vec<Registers> {
        code.iter().map(|bytes| Registers::of(bytes)).collect()
    }

    /// Runs blocks, each a list of instructions, and says for each access of each, the first of its instruction,
    /// how many loads back it depends.
    fn run(blocks: &[&[&[u8]]]) -> Vec<Vec<u8>> {
        let mut followed = Followed::default();
        blocks.iter().map(|block| run_on(&mut followed, block)).collect()
    }

    fn run_on(followed: &mut Followed, block: &[&[u8]]) -> Vec<u8> {
        let instructions = registers(block);
        let mut found = Vec::new();
        for (one, access) in instructions.iter().zip(plan(&instructions)) {
            before(followed, &access);
            if one.loads || one.stores {
                // By both ways, which have to agree.
                let mut told = *followed;
                let by_edge = follow(followed, access.edge_way(), access.dependence);
                assert_eq!(follow(&mut told, access.way(), access.dependence), by_edge);
                found.push(by_edge);
            }
            followed.loads += u64::from(one.loads);
        }
        found
    }

    /// What is done before an instruction.
    fn before(followed: &mut Followed, access: &Access) {
        match access.before() {
            Before::Nothing => {}
            Before::Moves(moves) => followed.pass(moves),
            Before::Edge(edge) => _ = followed.access(edge),
        }
    }

    /// The first access of an instruction, as the callbacks do it.
    fn follow(followed: &mut Followed, way: Way, known: u8) -> u8 {
        let back = match way {
            Way::None => 0,
            Way::Read(registers) => followed.read(registers),
            Way::Set(edge) => followed.set(edge).unwrap_or_else(|| followed.access(edge)),
            Way::Edge(edge) => followed.access(edge),
        };
        // Both are flags of the access.
        assert!(known == 0 || Op::compute(0).depending_on(back).dependence() == 0);
        known | Op::compute(0).depending_on(back).dependence()
    }

    const CHASE: &[u8] = &[0x48, 0x8b, 0x00]; // mov (%rax),%rax
    const FIELD: &[u8] = &[0x48, 0x03, 0x50, 8]; // add 8(%rax),%rdx
    const LOAD: &[u8] = &[0x48, 0x8b, 0x06]; // mov (%rsi),%rax
    const STORE: &[u8] = &[0x48, 0x89, 0x07]; // mov %rax,(%rdi)
    const STORE_AT: &[u8] = &[0x48, 0x89, 0x08]; // mov %rcx,(%rax)
    const LOAD_AT_RCX: &[u8] = &[0x48, 0x8b, 0x11]; // mov (%rcx),%rdx
    const MOVE: &[u8] = &[0x48, 0x89, 0xc1]; // mov %rax,%rcx
    const FROM_RBX: &[u8] = &[0x48, 0x89, 0xd9]; // mov %rbx,%rcx
    const ADD: &[u8] = &[0x48, 0x01, 0xc1]; // add %rax,%rcx
    const ZERO: &[u8] = &[0x31, 0xc0]; // xor %eax,%eax
    const NEXT: &[u8] = &[0x48, 0x83, 0xc6, 8]; // add $8,%rsi
    const JUMP: &[u8] = &[0x75, 0xf0]; // jne
    const UPDATE_AT: &[u8] = &[0x48, 0x01, 0x08]; // add %rcx,(%rax)
    const REPEAT: &[u8] = &[0xf3, 0xa4]; // rep movsb
    const FILL: &[u8] = &[0xf3, 0xaa]; // rep stosb
    const CALL: &[u8] = &[0xe8, 0, 0, 0, 0]; // call
    const RETURN: &[u8] = &[0xc3]; // ret
    const PUSH: &[u8] = &[0x50]; // push %rax
    const POP: &[u8] = &[0x5b]; // pop %rbx
    const TEST: &[u8] = &[0x48, 0x3b, 0x3e]; // cmp (%rsi),%rdi
    const CHOOSE: &[u8] = &[0x48, 0x0f, 0x44, 0xca]; // cmove %rdx,%rcx
    const CHOOSE_LOAD: &[u8] = &[0x48, 0x0f, 0x44, 0x06]; // cmove (%rsi),%rax
    const TO_VECTOR: &[u8] = &[0x66, 0x48, 0x0f, 0x6e, 0xc0]; // movq %rax,%xmm0
    const FROM_VECTOR: &[u8] = &[0x66, 0x48, 0x0f, 0x7e, 0xc1]; // movq %xmm0,%rcx
    const LOAD_INDICES: &[u8] = &[0xc5, 0xfe, 0x6f, 0x0e]; // vmovdqu (%rsi),%ymm1
    const GATHER: &[u8] = &[0xc4, 0xe2, 0x6d, 0x90, 0x04, 0x8f]; // vpgatherdd %ymm2,(%rdi,%ymm1,4),%ymm0

    #[test]
    fn each_step_of_a_chase_depends_on_the_one_before() {
        let block: &[&[u8]] = &[CHASE, NEXT, JUMP];
        assert_eq!(run(&[block; 3]), [[0], [1], [1]]);
        assert_eq!(run(&[&[CHASE, CHASE, CHASE]]), [[0, 1, 1]]);
    }

    #[test]
    fn fields_of_a_node_depend_on_the_load_that_gave_it() {
        let block: &[&[u8]] = &[FIELD, FIELD, CHASE, JUMP];
        assert_eq!(run(&[block; 2]), [[0, 0, 0], [1, 2, 3]]);
        assert_eq!(run(&[&[CHASE, FIELD, STORE_AT, FIELD]]), [[0, 1, 2, 2]]);
        assert_eq!(
            run(&[&[CHASE], &[FIELD], &[NEXT], &[FIELD, STORE_AT]]),
            [vec![0], vec![1], vec![], vec![2, 3]]
        );
    }

    #[test]
    fn loads_in_order_depend_on_nothing() {
        let block: &[&[u8]] = &[LOAD, NEXT, JUMP];
        assert_eq!(run(&[block; 3]), [[0]; 3]);
    }

    #[test]
    fn a_stores_address_counts_and_its_data_do_not() {
        assert_eq!(run(&[&[LOAD, STORE, STORE_AT]]), [[0, 0, 1]]);
        assert_eq!(run(&[&[LOAD], &[STORE], &[STORE_AT]]), [[0], [0], [1]]);
    }

    #[test]
    fn values_move_through_blocks_without_accesses_and_go_where_they_are_overwritten() {
        assert_eq!(run(&[&[LOAD], &[MOVE], &[LOAD_AT_RCX]]), [vec![0], vec![], vec![1]]);
        assert_eq!(run(&[&[LOAD], &[ZERO], &[CHASE]]), [vec![0], vec![], vec![0]]);
        assert_eq!(run(&[&[LOAD], &[MOVE, STORE, ZERO], &[LOAD_AT_RCX]]), [[0], [0], [1]]);
        assert_eq!(run(&[&[LOAD], &[STORE_AT, ZERO], &[CHASE]]), [[0], [1], [0]]);
        assert_eq!(run(&[&[LOAD, ZERO, CHASE]]), [[0, 0]]);
    }

    #[test]
    fn values_move_through_blocks_with_loads() {
        // What the second block loads comes between.
        assert_eq!(run(&[&[LOAD], &[MOVE, TEST], &[LOAD_AT_RCX]]), [[0], [0], [2]]);
        assert_eq!(
            run(&[&[LOAD], &[TEST, MOVE, ZERO], &[LOAD_AT_RCX, CHASE]]),
            [vec![0], vec![0], vec![2, 0]]
        );
        // More of them than an edge has room for.
        let spread: &[&[u8]] = &[
            MOVE,
            &[0x48, 0x89, 0xc2], // mov %rax,%rdx
            &[0x48, 0x89, 0xc3], // mov %rax,%rbx
            ZERO,
            TEST,
        ];
        let none: &[&[u8]] = &[&[0x31, 0xc9]]; // xor %ecx,%ecx
        assert_eq!(
            run(&[&[LOAD], spread, none, &[LOAD_AT_RCX], &[FROM_RBX, LOAD_AT_RCX]]),
            [vec![0], vec![0], vec![], vec![0], vec![3]]
        );
        assert_eq!(run(&[&[LOAD, TO_VECTOR, FROM_VECTOR, LOAD_AT_RCX]]), [[0, 1]]);
    }

    #[test]
    fn of_several_loads_the_latest_counts() {
        let first: &[&[u8]] = &[LOAD, MOVE, TEST];
        assert_eq!(run(&[first, &[LOAD], &[ADD], &[LOAD_AT_RCX]])[3], [1]);
        assert_eq!(run(&[&[LOAD, MOVE, LOAD, ADD, TEST, LOAD_AT_RCX]]), [[0, 0, 0, 2]]);
        assert_eq!(run(&[first, &[LOAD, ADD, LOAD_AT_RCX]])[1], [0, 1]);
        // mov (%rax,%rcx),%rax
        assert_eq!(run(&[first, &[LOAD], &[&[0x48, 0x8b, 0x04, 0x08]]])[2], [1]);
    }

    #[test]
    fn calls_and_the_stack_forget_nothing() {
        assert_eq!(run(&[&[LOAD], &[RETURN], &[CHASE]]), [[0], [0], [2]]);
        assert_eq!(
            run(&[&[LOAD, PUSH, CALL], &[POP, RETURN], &[CHASE]]),
            [vec![0, 0, 0], vec![0, 0], vec![3]]
        );
        // mov 8(%rsp),%rbx
        assert_eq!(run(&[&[LOAD, &[0x48, 0x8b, 0x5c, 0x24, 8], CHASE]]), [[0, 0, 2]]);
        // mov (%rbx),%rcx: what POP gave
        assert_eq!(run(&[&[LOAD, POP], &[&[0x48, 0x8b, 0x0b]]]), [vec![0, 0], vec![1]]);
    }

    #[test]
    fn a_load_is_out_of_reach_behind_so_many_others() {
        for between in 0..40 {
            let expected = if between < MOST_DEPENDENCE { between + 1 } else { 0 };
            let others = vec![TEST; between.into()];
            let within = [&[LOAD][..], &others, &[CHASE]].concat();
            assert_eq!(run(&[&within])[0].last(), Some(&expected), "{between}");
            assert_eq!(run(&[&[LOAD], &others, &[CHASE]])[2], [expected], "{between}");
            let load = [&[LOAD][..], &others, &[MOVE]].concat();
            assert_eq!(run(&[&load, &[LOAD_AT_RCX]])[1], [expected], "{between}");
            let moved = [&others[..], &[MOVE]].concat();
            assert_eq!(run(&[&[LOAD], &moved, &[LOAD_AT_RCX]])[2], [expected], "{between}");
        }
        let mut followed = Followed::default();
        run_on(&mut followed, &[LOAD]);
        followed.loads += 1 << 32;
        assert_eq!(run_on(&mut followed, &[CHASE]), [0]);
        for passed in 0..300 {
            // Wherever reaches are counted from, and anew.
            let mut followed = Followed { loads: passed, ..Followed::default() };
            run_on(&mut followed, &[LOAD, NEXT]);
            run_on(&mut followed, &[MOVE, TEST, ZERO, JUMP]);
            assert_eq!(run_on(&mut followed, &[CHASE, LOAD_AT_RCX]), [0, 3], "{passed}");
        }
    }

    #[test]
    fn what_a_comparison_chooses_is_made_of_what_it_compared() {
        assert_eq!(run(&[&[TEST, CHOOSE, LOAD_AT_RCX]]), [[0, 1]]);
        assert_eq!(run(&[&[TEST], &[CHOOSE], &[LOAD_AT_RCX]]), [vec![0], vec![], vec![0]]);
        assert_eq!(run(&[&[LOAD, TEST, CHOOSE_LOAD, CHASE]]), [[0, 0, 0, 1]]);
    }

    #[test]
    fn an_update_depends_by_its_load_alone_and_so_do_repetitions() {
        for block in [&[LOAD, UPDATE_AT][..], &[UPDATE_AT], &[REPEAT], &[LOAD, GATHER]] {
            let accesses = plan(&registers(block));
            let Way::Edge(edge) = accesses[block.len() - 1].edge_way() else {
                panic!("{block:x?}")
            };
            assert_eq!(Followed::default().further(edge), None, "{block:x?}");
        }
        for block in [&[STORE][..], &[FILL], &[CHASE]] {
            let Way::Edge(edge) = plan(&registers(block))[0].edge_way() else {
                panic!("{block:x?}")
            };
            assert!(Followed::default().further(edge).is_some(), "{block:x?}");
        }
        assert_eq!(run(&[&[LOAD], &[UPDATE_AT]]), [[0], [1]]);
        // What it leaves is a load further back.
        assert_eq!(run(&[&[LOAD, UPDATE_AT, UPDATE_AT], &[CHASE]]), [vec![0, 1, 2], vec![3]]);
        let source: &[u8] = &[0x48, 0x8b, 0x30]; // mov (%rax),%rsi
        let mut followed = Followed::default();
        assert_eq!(run_on(&mut followed, &[source, REPEAT]), [0, 1]);
        // A fill loads nothing, so that all its stores depend as its first does.
        let target: &[u8] = &[0x48, 0x8b, 0x38]; // mov (%rax),%rdi
        let mut followed = Followed::default();
        assert_eq!(run_on(&mut followed, &[target, FILL]), [0, 1]);
        assert_eq!(run_on(&mut followed, &[FILL]), [1]);
    }

    #[test]
    fn what_repeats_loads_as_often_as_it_does() {
        for repetitions in [0, 1, 5, 30] {
            let mut followed = Followed::default();
            run_on(&mut followed, &[LOAD, MOVE]);
            for _ in 0..repetitions {
                run_on(&mut followed, &[REPEAT]);
            }
            let expected = if repetitions < MOST_DEPENDENCE { repetitions + 1 } else { 0 };
            assert_eq!(run_on(&mut followed, &[CHASE]), [expected]);
        }
    }

    #[test]
    fn elements_of_a_gather_are_loads_of_an_unknown_number() {
        let mut followed = Followed::default();
        let block = registers(&[LOAD, LOAD_INDICES, GATHER, FROM_VECTOR, LOAD_AT_RCX, CHASE]);
        let accesses = plan(&block);
        let mut found = Vec::new();
        for (access, loads) in accesses.iter().zip([1, 1, 8, 0, 1, 1]) {
            before(&mut followed, access);
            found.push(follow(&mut followed, access.way(), access.dependence));
            followed.loads += loads;
        }
        assert_eq!(found, [0, 0, 1, 0, 1, 11]);
        // Where no access is behind it, the instruction behind it does it.
        assert_eq!(run(&[&[GATHER, FROM_VECTOR, NEXT], &[LOAD_AT_RCX]]), [[0], [1]]);
        // A vector is not followed from block to block.
        assert_eq!(run(&[&[GATHER], &[FROM_VECTOR], &[LOAD_AT_RCX]]), [vec![0], vec![], vec![0]]);
    }

    #[test]
    fn what_changes_nothing_costs_no_callback_or_a_look() {
        let nothing = Access::default();
        assert_eq!(plan(&registers(&[NEXT, JUMP])), [nothing.clone(), nothing.clone()]);
        let accesses = plan(&registers(&[STORE, NEXT, JUMP]));
        let rdi = two(Registers::of(STORE).address).unwrap();
        assert_eq!(accesses[0].way(), Way::Read(rdi));
        assert_eq!(accesses[1..], [nothing.clone(), nothing.clone()]);
        assert_eq!(plan(&registers(&[RETURN])), [nothing]);
        assert_eq!(plan(&registers(&[TEST, JUMP]))[0].way(), Way::Read(two(1 << 6).unwrap()));
    }
}
