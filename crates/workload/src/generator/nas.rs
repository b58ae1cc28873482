//! `nas/bt`, `nas/sp`, `nas/lu`, `nas/mg`: the loop nests over grids of the NAS Parallel Benchmarks (Bailey and
//! others, NAS-95-020, 1995; loops and arrays of NPB 3.3's OpenMP sources; \[NVM10\] §IV-C runs class D).
//!
//! Each nest is told by the arrays that a point loads from and stores to, and at which distance. What stays
//! within a line (the blocks that a line's solution holds) is in its instructions alone. Operations of a
//! point and step are those that the benchmark counts for class A, dealt to the nests by our reading.
//! Threads have parts of the outermost loop and wait for each other after each nest; those of `lu` pass
//! their planes on one by one in the real program.

use super::nest::{Access, Array, Grid, Nest, Program, load, nests, store};
use super::{
    Generator, Made, Parameter, ParameterError, find_value, flag, integer, text, threads_of, wrong,
};
use serde_json::Value;

pub(super) const CLASS: Parameter = Parameter {
    name: "class",
    default: "\"A\"",
    meaning: "problem class, S, W, A, B, C or D (NAS-95-020; D: NAS-02-008); [NVM10] runs D",
};
const STEPS: Parameter = Parameter {
    name: "steps",
    default: "1",
    meaning: "time steps or iterations, or full, which is the class's",
};
const THREADS: Parameter = Parameter {
    name: "threads",
    default: "4",
    meaning: "threads, up to the points of an axis; 16 in [NVM10] §IV-C",
};
pub(super) const TOUCHED: Parameter = Parameter {
    name: "touched",
    default: "true",
    meaning: "whether each page is written to once before the region of interest, which then begins: \
              [NVM10] counts from the end of initialization",
};
const PARAMETERS: &[Parameter] = &[CLASS, STEPS, THREADS, TOUCHED];

/// Registration.
pub const GENERATORS: &[Generator] = &[
    Generator {
        name: "nas/bt",
        summary: "a block-tridiagonal solver: five numbers a point, lines along each axis",
        dependences: "",
        parameters: PARAMETERS,
        build: |parameters, _| build(parameters, &BT),
    },
    Generator {
        name: "nas/sp",
        summary: "a scalar pentadiagonal solver: five numbers a point, lines along each axis",
        dependences: "",
        parameters: PARAMETERS,
        build: |parameters, _| build(parameters, &SP),
    },
    Generator {
        name: "nas/lu",
        summary: "a solver by symmetric successive over-relaxation, forth and back",
        dependences: "",
        parameters: PARAMETERS,
        build: |parameters, _| build(parameters, &LU),
    },
    Generator {
        name: "nas/mg",
        summary: "multigrid: stencils of 27 points on grids each half as fine as the one before",
        dependences: "",
        parameters: PARAMETERS,
        build: |parameters, _| build(parameters, &MG),
    },
];

const CLASSES: [&str; 6] = ["S", "W", "A", "B", "C", "D"];

/// Points of an axis and steps of each class, and what a step does (NAS-95-020, Tables 1 to 3; NPB 3.3's
/// `setparams.c`).
struct Kernel {
    points: [u64; 6],
    steps: [u64; 6],
    make: fn(u64) -> (Vec<Array>, Vec<Nest>),
}

const BT: Kernel =
    Kernel { points: [12, 24, 64, 102, 162, 408], steps: [60, 200, 200, 200, 200, 250], make: bt };
const SP: Kernel =
    Kernel { points: [12, 36, 64, 102, 162, 408], steps: [100, 400, 400, 400, 400, 500], make: sp };
const LU: Kernel =
    Kernel { points: [12, 33, 64, 102, 162, 408], steps: [50, 300, 250, 250, 250, 300], make: lu };
const MG: Kernel =
    Kernel { points: [32, 128, 256, 256, 512, 1024], steps: [4, 4, 4, 20, 20, 50], make: mg };

fn build(parameters: &[(String, Value)], kernel: &Kernel) -> Made {
    let class = class(parameters)?;
    let steps = steps(parameters, kernel.steps[class])?;
    let threads = threads_of(parameters)?;
    if u64::from(threads) > kernel.points[class] {
        let reason = format!("more than the {} points of an axis", kernel.points[class]);
        let value = find_value(parameters, "threads");
        return Err(wrong("threads", value, &reason, "write fewer, or a larger class"));
    }
    let (arrays, all) = (kernel.make)(kernel.points[class]);
    let touched = flag(parameters, "touched")?;
    nests(Program { arrays, nests: all, steps, threads, touched, parameter: "class" })
}

/// How many steps are asked for, of which the benchmark has so many.
pub(super) fn steps(parameters: &[(String, Value)], full: u64) -> Result<u64, ParameterError> {
    match text(parameters, "steps") {
        Some("full") => Ok(full),
        _ => integer(parameters, "steps", 0..=1_000_000).map_err(|error| ParameterError {
            mend: "write a whole number, or full".into(),
            ..error
        }),
    }
}

/// The number of a class, S first.
pub(super) fn class(parameters: &[(String, Value)]) -> Result<usize, ParameterError> {
    let said = text(parameters, "class");
    CLASSES.iter().position(|class| said == Some(class)).ok_or_else(|| {
        let value = find_value(parameters, "class");
        wrong("class", value, "no class of the benchmarks", "write S, W, A, B, C or D")
    })
}

// ---- Solvers over one grid ----------------------------------------------------------------------

/// Numbers of a point: density, momentum along each axis, energy.
const FIVE: u64 = 5;
const HERE: [i64; 3] = [0; 3];
/// Axes from the slowest in memory: z, y, x.
const Z: usize = 0;
const Y: usize = 1;
const X: usize = 2;

/// A point away along an axis.
fn along(axis: usize, distance: i64) -> [i64; 3] {
    let mut away = HERE;
    away[axis] = distance;
    away
}

fn nest(points: u64, order: [usize; 3], accesses: Vec<Access>, instructions: u64) -> Nest {
    Nest { points: [points; 3], order, accesses, instructions, back: false }
}

const IN_MEMORY: [usize; 3] = [Z, Y, X];
/// The loops of the solution along an axis, which is innermost (x_solve.f, y_solve.f, z_solve.f).
const SOLVES: [[usize; 3]; 3] = [[Z, Y, X], [Z, X, Y], [Y, X, Z]];

/// Arrays of the solvers: the state, the right-hand side, what drives it; then those of one number.
const STATE: usize = 0;
const SIDE: usize = 1;
const FORCE: usize = 2;
const SINGLE: usize = 3;

fn grid_arrays(points: u64, singles: usize) -> Vec<Array> {
    let of = |numbers| Array { points: [points; 3], numbers };
    [of(FIVE); 3].into_iter().chain(vec![of(1); singles]).collect()
}

/// The right-hand side (rhs.f): numbers that follow from the state, the force, and along each axis
/// differences of neighbours and damping by those at distance two.
fn right_hand_side(points: u64, singles: usize, instructions: u64) -> Vec<Nest> {
    let mut first = vec![load(STATE, HERE, FIVE)];
    first.extend((0..singles).map(|number| store(SINGLE + number, 1)));
    let mut all = vec![
        nest(points, IN_MEMORY, first, instructions / 8),
        nest(points, IN_MEMORY, vec![load(FORCE, HERE, FIVE), store(SIDE, FIVE)], FIVE),
    ];
    for axis in [X, Y, Z] {
        let mut accesses: Vec<Access> =
            [0, 1, -1, 2, -2].map(|distance| load(STATE, along(axis, distance), FIVE)).into();
        for number in 0..singles.min(6) {
            accesses.extend([0, 1, -1].map(|far| load(SINGLE + number, along(axis, far), 1)));
        }
        accesses.extend([load(SIDE, HERE, FIVE), store(SIDE, FIVE)]);
        all.push(nest(points, IN_MEMORY, accesses, instructions / 4));
    }
    all.push(nest(points, IN_MEMORY, vec![load(SIDE, HERE, FIVE), store(SIDE, FIVE)], FIVE));
    all
}

/// The state takes the solution (add.f).
fn addition(points: u64) -> Nest {
    let accesses = vec![load(STATE, HERE, FIVE), load(SIDE, HERE, FIVE), store(STATE, FIVE)];
    nest(points, IN_MEMORY, accesses, FIVE)
}

/// 168.3 G operations of class A (bt.f's formula): 3210 of a point and step; a third of what the right-hand
/// side leaves is of each solution.
fn bt(points: u64) -> (Vec<Array>, Vec<Nest>) {
    let singles = 6;
    let mut all = right_hand_side(points, singles, 400);
    for (axis, order) in [X, Y, Z].into_iter().zip(SOLVES) {
        let mut accesses = vec![load(STATE, HERE, FIVE)];
        accesses.extend([0, 1, 2].map(|number| load(SINGLE + number, HERE, 1)));
        accesses.extend([load(SIDE, along(axis, -1), FIVE), load(SIDE, HERE, FIVE)]);
        accesses.push(store(SIDE, FIVE));
        all.push(nest(points, order, accesses, 920));
        // Back along the line.
        let back =
            vec![load(SIDE, along(axis, 1), FIVE), load(SIDE, HERE, FIVE), store(SIDE, FIVE)];
        all.push(Nest { back: true, ..nest(points, order, back, 60) });
    }
    all.push(addition(points));
    (grid_arrays(points, singles), all)
}

/// 85.0 G operations of class A (sp.f's formula): 810 of a point and step.
fn sp(points: u64) -> (Vec<Array>, Vec<Nest>) {
    let singles = 7;
    let mut all = right_hand_side(points, singles, 400);
    for (axis, order) in [X, Y, Z].into_iter().zip(SOLVES) {
        let mut accesses: Vec<Access> =
            [0, 1, 2].map(|number| load(SINGLE + number, HERE, 1)).into();
        accesses.extend([0, -1, -2].map(|far| load(SIDE, along(axis, far), FIVE)));
        accesses.push(store(SIDE, FIVE));
        all.push(nest(points, order, accesses, 70));
        let mut back: Vec<Access> = [0, 1, 2].map(|far| load(SIDE, along(axis, far), FIVE)).into();
        back.push(store(SIDE, FIVE));
        all.push(Nest { back: true, ..nest(points, order, back, 30) });
        // The product with the next axis's matrix (txinvr.f, ninvr.f, pinvr.f, tzetar.f).
        let mut turned: Vec<Access> = (0..4).map(|number| load(SINGLE + number, HERE, 1)).collect();
        turned.extend([load(SIDE, HERE, FIVE), store(SIDE, FIVE)]);
        all.push(nest(points, IN_MEMORY, turned, 25));
    }
    all.push(addition(points));
    (grid_arrays(points, singles), all)
}

/// 119.3 G operations of class A (lu.f's formula): 1820 of a point and step. Forth (jacld.f, blts.f) and back (jacu.f, buts.f).
fn lu(points: u64) -> (Vec<Array>, Vec<Nest>) {
    let singles = 2;
    let mut all = Vec::new();
    for (far, instructions) in [(-1, 770), (1, 770)] {
        let mut accesses = Vec::new();
        for away in [HERE, along(Z, far), along(Y, far), along(X, far)] {
            accesses.extend([load(STATE, away, FIVE), load(SINGLE, away, 1)]);
            accesses.extend([load(SINGLE + 1, away, 1), load(SIDE, away, FIVE)]);
        }
        accesses.push(store(SIDE, FIVE));
        all.push(Nest { back: far > 0, ..nest(points, IN_MEMORY, accesses, instructions) });
    }
    all.push(addition(points));
    all.extend(right_hand_side(points, singles, 300));
    (grid_arrays(points, singles), all)
}

// ---- Multigrid ----------------------------------------------------------------------------------

/// A stencil of 27 points: the numbers of three lines of each of three planes, of which each point loads
/// those that no point before it has in a register (mg.f, which sums them in `u1` and `u2` first).
fn stencil(array: usize, grid: Grid) -> impl Iterator<Item = Access> {
    (0..9).map(move |line| Access {
        array,
        grid,
        away: [line / 3 - 1, line % 3 - 1, 1],
        numbers: 1,
        store: false,
    })
}

/// Arrays: the right-hand side of the finest grid; solution and residual of each, the finest first. A
/// V-cycle (mg3P) and the residual behind it.
fn mg(points: u64) -> (Vec<Array>, Vec<Nest>) {
    let levels = points.ilog2() as usize;
    // Grids have a point more at each end.
    let side = |level: usize| (points >> level) + 2;
    let of = |level| Array { points: [side(level); 3], numbers: 1 };
    let mut arrays = vec![of(0)];
    arrays.extend((0..levels).flat_map(|level| [of(level); 2]));
    let solution = |level: usize| 1 + 2 * level;
    let residual = |level: usize| 2 + 2 * level;
    let on = |level: usize, accesses: Vec<Access>, instructions| {
        nest(points >> level, IN_MEMORY, accesses, instructions)
    };
    let resid = |level: usize| {
        let side = if level == 0 { 0 } else { residual(level) };
        let own = stencil(solution(level), Grid::Same);
        let accesses = own.chain([load(side, HERE, 1), store(residual(level), 1)]).collect();
        on(level, accesses, 25)
    };
    let psinv = |level: usize| {
        let own = stencil(residual(level), Grid::Same);
        let solved = solution(level);
        on(level, own.chain([load(solved, HERE, 1), store(solved, 1)]).collect(), 25)
    };
    let mut all = Vec::new();
    for level in 1..levels {
        // To the coarser grid (rprj3): two lines more along the fast axis for each point.
        let finer = stencil(residual(level - 1), Grid::Finer);
        let accesses = finer.chain([store(residual(level), 1)]).collect();
        all.push(on(level, accesses, 40));
    }
    let coarsest = levels - 1;
    all.push(on(coarsest, vec![store(solution(coarsest), 1)], 2));
    all.push(psinv(coarsest));
    for level in (0..coarsest).rev() {
        if level > 0 {
            all.push(on(level, vec![store(solution(level), 1)], 2));
        }
        // From the coarser grid (interp).
        let from = |far| Access {
            array: solution(level + 1),
            grid: Grid::Coarser,
            away: along(X, far),
            numbers: 1,
            store: false,
        };
        let own = solution(level);
        all.push(on(level, vec![from(0), from(1), load(own, HERE, 1), store(own, 1)], 8));
        all.push(resid(level));
        all.push(psinv(level));
    }
    all.push(resid(0));
    (arrays, all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::stream_laws;
    use crate::generator::find;
    use crate::generator::prelude::BASE_ADDRESS;
    use crate::stream::Pull;
    use std::collections::BTreeSet;

    fn program(make: fn(u64) -> (Vec<Array>, Vec<Nest>), points: u64, threads: u32) -> Program {
        let (arrays, nests) = make(points);
        Program { arrays, nests, steps: 2, threads, touched: true, parameter: "class" }
    }

    #[test]
    fn the_streams_laws_hold() {
        for (make, points, threads) in
            [(bt as fn(u64) -> (Vec<Array>, Vec<Nest>), 3, 2), (sp, 3, 1), (lu, 4, 3), (mg, 4, 2)]
        {
            stream_laws(|| nests(program(make, points, threads)).unwrap());
        }
    }

    /// \[NVM10\] Table III: gigabytes of class D.
    #[test]
    fn memory_of_class_d_is_that_of_the_paper() {
        for (name, gigabytes) in
            [("nas/bt", 11.0), ("nas/sp", 12.0), ("nas/lu", 9.0), ("nas/mg", 28.0)]
        {
            let sets = [("class".to_owned(), Value::from("D"))];
            let (stream, _) = find(name).unwrap().make(&sets, 0).unwrap();
            let found = stream.footprint().unwrap().bytes as f64 / 1e9;
            assert!((found / gigabytes - 1.0).abs() < 0.06, "{name}: {found}");
        }
    }

    /// Operations that the benchmarks count for class A: instructions beside accesses are as many, within
    /// a fifth, of a step and point.
    #[test]
    fn a_step_has_the_operations_of_class_a() {
        for (make, of_a_point) in
            [(bt as fn(u64) -> (Vec<Array>, Vec<Nest>), 3210.0), (sp, 810.0), (lu, 1820.0)]
        {
            let all: u64 = make(64).1.iter().map(|nest| nest.instructions).sum();
            assert!((all as f64 / of_a_point - 1.0).abs() < 0.2, "{all} for {of_a_point}");
        }
    }

    /// Every page of every array is used in a step.
    #[test]
    fn a_step_goes_through_all_memory() {
        for make in [bt as fn(u64) -> (Vec<Array>, Vec<Nest>), sp, lu, mg] {
            let one = Program { steps: 1, touched: false, ..program(make, 16, 2) };
            let mut stream = nests(one).unwrap();
            let bytes = stream.footprint().unwrap().bytes;
            let mut pages = BTreeSet::new();
            for thread in 0..2 {
                let mut ops = Vec::new();
                while stream.pull(thread, 1 << 16, &mut ops).unwrap() == Pull::More {
                    let of = BASE_ADDRESS..BASE_ADDRESS + bytes;
                    let used = ops.drain(..).filter(|op| op.size() == 8 && of.contains(&op.word));
                    pages.extend(used.map(|op| (op.word - BASE_ADDRESS) / 4096));
                }
            }
            assert!(pages.len() as u64 >= bytes / 4096 * 95 / 100, "{} of {bytes}", pages.len());
        }
    }

    #[test]
    fn wrong_parameters_are_refused() {
        for (name, value, mend) in [
            ("class", Value::from("E"), "S, W, A, B, C or D"),
            ("steps", "many".into(), "or full"),
            ("threads", 100.into(), "a larger class"),
        ] {
            let told = find("nas/bt").unwrap().make(&[(name.to_owned(), value)], 0).err().unwrap();
            assert!(told.to_string().contains(mend), "{told}");
        }
    }

    /// Loads and stores of a point and step, by what the nests are made of, times the points: of class S, whose grid has
    /// 12 points an axis; of MG, each grid has an eighth of the points of the one before.
    #[test]
    fn a_step_has_the_accesses_of_its_nests() {
        let of = |name: &str, class: &str, threads: u64| {
            let sets = [
                ("class".to_owned(), Value::from(class)),
                ("threads".to_owned(), threads.into()),
                ("touched".to_owned(), false.into()),
            ];
            let (mut stream, _) = find(name).unwrap().make(&sets, 0).unwrap();
            let mut counts = crate::Counts::default();
            for thread in 0..threads as u32 {
                let mut ops = Vec::new();
                while stream.pull(thread, 1 << 16, &mut ops).unwrap() == Pull::More {}
                counts += crate::Counts::of(&ops);
            }
            assert_eq!(stream.accesses(), Some(counts.loads + counts.stores));
            (counts.loads, counts.stores)
        };
        let points = 12 * 12 * 12;
        // The right-hand side: state and force; along each axis five states, three of each of six numbers, and itself;
        // damping. Then, along each axis, the solution forth and back; and the addition.
        let side =
            |singles: u64| (15 + 3 * (5 * 5 + 3 * singles.min(6) + 5), singles + 5 + 3 * 5 + 5);
        let (loads, stores) = side(6);
        let bt = (loads + 3 * (5 + 3 + 10 + 10) + 10, stores + 3 * 10 + 5);
        let (loads, stores) = side(7);
        let sp = (loads + 3 * (3 + 15 + 15 + 4 + 5) + 10, stores + 3 * 15 + 5);
        let (loads, stores) = side(2);
        let lu = (loads + 2 * 4 * (5 + 1 + 1 + 5) + 10, stores + 2 * 5 + 5);
        for (name, (loads, stores)) in [("nas/bt", bt), ("nas/sp", sp), ("nas/lu", lu)] {
            for threads in [1, 3] {
                assert_eq!(of(name, "S", threads), (points * loads, points * stores), "{name}");
            }
        }
        // Of 32 points: five grids, 32 to 2. Nine loads of a stencil, and what it is added to.
        let all: Vec<u64> = (0..5).map(|level| (32u64 >> level).pow(3)).collect();
        let sum = |levels: std::ops::Range<usize>| all[levels].iter().sum::<u64>();
        let (restrict, smooth, residual) =
            (9 * sum(1..5), 10 * sum(0..5), 10 * (sum(0..4) + all[0]));
        let loads = restrict + smooth + residual + 3 * sum(0..4);
        // Zeroing of all but the finest, and once of each of the others' loops.
        let stores = sum(1..5) + sum(1..5) + sum(0..5) + sum(0..4) + all[0] + sum(0..4);
        assert_eq!(of("nas/mg", "S", 1), (loads, stores));
    }
}
