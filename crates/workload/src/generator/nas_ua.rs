//! `nas/ua`: a heat source moves through a cube whose mesh follows it (Feng, Van der Wijngaart and Biswas,
//! NAS-04-006, 2004; loops and arrays of NPB 3.3's OpenMP source; \[NVM10\] §IV-C runs class D).
//!
//! Each element has 5 × 5 × 5 points. A time step moves heat with the flow (`convect`), then solves for its
//! diffusion by ten iterations of conjugate gradients (`diffusion`). What elements share lies on mortar points,
//! which an element finds by its tables of indices (`idmo`, `idel`): from them to the element (`transf`), and
//! back, where each sum is taken under a lock of its own (`transfb`). Every five steps the mesh is made anew
//! (`adaptation`). The mesh is the benchmark's, element for element, by its rules.
//!
//! Of each array that a point uses there is one access; what stays in the element's own few lines, such as
//! matrices of derivatives and sums, is in instructions alone. Points of a mortar are numbered element by element,
//! as in the benchmark, but edges and vertices along the border, and those that lie within an edge or a face of
//! a larger element, have those of an element that they lie in.

mod mesh;

use super::indexed::{first_of, share_of};
use super::mix::part;
use super::nas::{CLASS, TOUCHED, class};
use super::prelude::{BASE_ADDRESS, Prelude};
use super::units::{Units, barrier, in_units};
use super::{
    Generator, Made, PAGE_BYTES, Parameter, ParameterError, flag, integer, text, threads_of,
};
use crate::op::{FLAG_ATOMIC, MadeOf, Op, ThreadId};
use crate::stream::Footprint;
use mesh::{Beyond, EDGE, FACES, Mesh};
use serde_json::Value;
use std::sync::{Arc, Mutex, PoisonError};

/// Registration.
pub const GENERATORS: &[Generator] = &[Generator {
    name: "nas/ua",
    summary: "heat on an unstructured mesh that adapts to a source that moves",
    dependences: "a mortar point, its lock and a point of a face wait for the index that names them; what moves along elements waits for nothing",
    parameters: &[
        CLASS,
        Parameter {
            name: "steps",
            default: "1",
            meaning: "time steps, or full, which is the class's; the mesh changes after each fifth",
        },
        Parameter { name: "threads", default: "4", meaning: "threads; 16 in [NVM10] §IV-C" },
        TOUCHED,
    ],
    build,
}];

/// Elements and mortar points that memory is kept for, halvings, steps and the source's radius of each
/// class (NPB 3.3, setparams.c).
const ELEMENTS: [u64; 6] = [250, 700, 2400, 8800, 33_500, 515_000];
const POINTS: [u64; 6] = [11_600, 26_700, 92_700, 334_600, 1_262_100, 19_500_000];
const LEVELS: [u32; 6] = [4, 5, 6, 7, 8, 10];
const STEPS: [u64; 6] = [50, 100, 200, 200, 200, 250];
const RADIUS: [f64; 6] = [0.040, 0.060, 0.076, 0.076, 0.067, 0.046];
/// Steps between changes of the mesh, and iterations of conjugate gradients (fre, nmxh).
const STEPS_OF_A_MESH: u64 = 5;
const ITERATIONS: usize = 10;

const NUMBER_BYTES: u64 = 8;
const INDEX_BYTES: u64 = 4;
/// Points of an axis, of a face and of an element (lx1).
const AXIS: u64 = 5;
const OF_A_FACE: u64 = AXIS * AXIS;
const OF_AN_ELEMENT: u64 = AXIS * OF_A_FACE;
/// Elements of a piece of work.
const CHUNK: u64 = 4;

/// Arrays of numbers by element, and by mortar point (header.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Ta1,
    Ta2,
    Trhs,
    T,
    Tmult,
    Dpcelm,
    Pdiff,
    Pdiffp,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum On {
    Umor,
    Mormult,
    Tmort,
    Tmmor,
    Rmor,
    Dpcmor,
    Pmorx,
    Ppmor,
}
const ARRAYS: u64 = 8;
/// Of an element, indices of mortar points and of points of its faces, and all else: sides, edges, vertices,
/// trees, corners (header.h; 4 B for integers and truths).
const IDMO_BYTES: u64 = OF_A_FACE * 4 * FACES as u64 * INDEX_BYTES;
const IDEL_BYTES: u64 = OF_A_FACE * FACES as u64 * INDEX_BYTES;
const REST_BYTES: u64 = 1752;

/// What a loop does, over elements or over mortar points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loop {
    /// Points of elements: loads, then stores, with so many instructions of each point.
    Elements(&'static [At], &'static [At], u64),
    /// Mortar points, likewise.
    Mortars(&'static [On], &'static [On], u64),
    /// From mortar points to elements, and back.
    ToElements(On, At),
    ToMortars(On, At),
    /// The boundary's points become zero.
    Boundary(At),
    /// The mesh is made anew, where a step ends that makes it.
    Adapt,
}

use At::{Dpcelm, Pdiff, Pdiffp, T, Ta1, Ta2, Tmult, Trhs};
use Loop::{Adapt, Boundary, Elements, Mortars, ToElements, ToMortars};
use On::{Dpcmor, Mormult, Pmorx, Ppmor, Rmor, Tmmor, Tmort, Umor};

/// Instructions of a point beside its accesses: operations of its formula in the source. Of each derivative
/// five products and sums; `convect` has three, four times over, and the source's distance.
const CONVECT: u64 = 4 * (3 * 10 + 12);
const LAPLACIAN: u64 = 3 * 10 + 8;
const SUM: u64 = 2;

/// Before the iterations: convect.f, ua.f, and the beginning of diffuse.f.
const BEFORE: &[Loop] = &[
    Elements(&[Ta1], &[Trhs, Ta1], CONVECT),
    Mortars(&[], &[Tmort], 1),
    ToMortars(Tmort, Ta1),
    Mortars(&[Tmort, Mormult], &[Tmort], 1),
    Elements(&[Ta1, Tmult], &[Ta1], 1),
    ToElements(Tmort, Ta1),
    Elements(&[Ta1], &[Ta2], LAPLACIAN),
    Elements(&[Trhs, Ta2], &[Trhs], 1),
    Mortars(&[], &[Rmor], 1),
    ToMortars(Rmor, Trhs),
    Boundary(Trhs),
    Mortars(&[Rmor, Tmmor], &[Rmor], 1),
    Elements(&[], &[T], 1),
    Mortars(&[], &[Umor], 1),
    Elements(&[Dpcelm, Trhs, Tmult], &[Pdiff], 2 * SUM),
    Mortars(&[Dpcmor, Rmor], &[Pmorx], SUM),
];
/// What an iteration does but for the first, and what each does (diffuse.f).
const LATER: &[Loop] = &[
    Elements(&[Dpcelm, Trhs, Tmult], &[Pdiffp], 2 * SUM),
    Mortars(&[Dpcmor, Rmor], &[Ppmor], SUM),
    Elements(&[Pdiff, Pdiffp], &[Pdiff], SUM),
    Mortars(&[Pmorx, Ppmor], &[Pmorx], SUM),
];
const EACH: &[Loop] = &[
    Elements(&[Pdiff, Tmult], &[Pdiff], 1),
    ToElements(Pmorx, Pdiff),
    Elements(&[Pdiff], &[Pdiffp], LAPLACIAN),
    Mortars(&[], &[Ppmor], 1),
    ToMortars(Ppmor, Pdiffp),
    Boundary(Pdiffp),
    Elements(&[Pdiff, Pdiffp, Tmult], &[], 2 * SUM),
    Mortars(&[Ppmor, Tmmor, Pmorx], &[Ppmor], 2 * SUM),
    Elements(&[T, Pdiff], &[T], SUM),
    Mortars(&[Umor, Pmorx], &[Umor], SUM),
    Elements(&[Trhs, Pdiffp], &[Trhs], SUM),
    Mortars(&[Rmor, Ppmor], &[Rmor], SUM),
];
const AFTER: &[Loop] =
    &[Elements(&[T, Tmult], &[T], 1), ToElements(Umor, T), Elements(&[Ta1, T], &[Ta1], 1), Adapt];

/// All loops of a step.
fn loops() -> Vec<Loop> {
    let iteration = |number| [if number > 0 { LATER } else { &[] }, EACH].concat();
    let iterations = (0..ITERATIONS).flat_map(iteration);
    BEFORE.iter().copied().chain(iterations).chain(AFTER.iter().copied()).collect()
}

fn build(parameters: &[(String, Value)], _seed: u64) -> Made {
    let class = class(parameters)?;
    let steps = match text(parameters, "steps") {
        Some("full") => STEPS[class],
        _ => integer(parameters, "steps", 0..=STEPS[class]).map_err(|error| ParameterError {
            mend: format!("write a whole number up to {}, or full", STEPS[class]),
            ..error
        })?,
    };
    let threads = threads_of(parameters)?;
    Ok(in_units(Ua {
        size: Size::of(class),
        steps,
        threads,
        touched: flag(parameters, "touched")?,
        loops: Arc::new(loops()),
        meshes: Arc::default(),
    }))
}

/// Meshes that are kept, by the number of changes before them.
type Meshes = Mutex<Vec<(u64, Arc<Mesh>)>>;
const MESHES: usize = 4;

/// What a class says of the mesh.
#[derive(Clone, Copy)]
struct Size {
    elements: u64,
    points: u64,
    levels: u32,
    radius: f64,
}

impl Size {
    fn of(class: usize) -> Size {
        let (elements, points) = (ELEMENTS[class], POINTS[class]);
        Size { elements, points, levels: LEVELS[class], radius: RADIUS[class] }
    }
}

#[derive(Clone)]
struct Ua {
    size: Size,
    steps: u64,
    threads: u32,
    touched: bool,
    loops: Arc<Vec<Loop>>,
    /// They follow from their number alone.
    meshes: Arc<Meshes>,
}

impl Ua {
    fn mesh(&self, changes: u64) -> Arc<Mesh> {
        let mut meshes = self.meshes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, mesh)) = meshes.iter().find(|(number, _)| *number == changes) {
            return mesh.clone();
        }
        let mesh = Mesh::after(changes * STEPS_OF_A_MESH, self.size.levels, self.size.radius);
        let mesh = Arc::new(mesh);
        meshes.insert(0, (changes, mesh.clone()));
        meshes.truncate(MESHES);
        mesh
    }

    /// Pieces of work of a thread in a loop, as many as the most elements have; and the barrier.
    fn pieces(&self, thread: ThreadId) -> u64 {
        share_of(self.size.elements, self.threads, thread).div_ceil(CHUNK)
    }

    // ---- Memory -------------------------------------------------------------------------------

    fn at(&self, array: At, element: u64, point: u64) -> u64 {
        let first = array as u64 * self.size.elements * OF_AN_ELEMENT;
        BASE_ADDRESS + (first + element * OF_AN_ELEMENT + point) * NUMBER_BYTES
    }

    fn on(&self, array: On, point: u64) -> u64 {
        let first = ARRAYS * self.size.elements * OF_AN_ELEMENT;
        BASE_ADDRESS + (first + array as u64 * self.size.points + point) * NUMBER_BYTES
    }

    /// Locks lie behind the mortar points' arrays (tlock).
    fn lock(&self, point: u64) -> u64 {
        self.on(Ppmor, self.size.points + point)
    }

    fn idmo(&self, element: u64, face: usize, quarter: u64, point: u64) -> u64 {
        let number = (face as u64 * 4 + quarter) * OF_A_FACE + point;
        self.lock(self.size.points) + element * IDMO_BYTES + number * INDEX_BYTES
    }

    fn idel(&self, element: u64, face: usize, point: u64) -> u64 {
        let number = face as u64 * OF_A_FACE + point;
        let first = self.idmo(self.size.elements, 0, 0, 0);
        first + element * IDEL_BYTES + number * INDEX_BYTES
    }

    /// All else of an element: what lies beyond its faces first (cbc).
    fn rest(&self, element: u64) -> u64 {
        self.idel(self.size.elements, 0, 0) + element * REST_BYTES
    }

    fn bytes(&self) -> u64 {
        (self.rest(self.size.elements) - BASE_ADDRESS).next_multiple_of(PAGE_BYTES)
    }

    // ---- Loops --------------------------------------------------------------------------------

    fn elements(
        &self,
        element: u64,
        loads: &[At],
        stores: &[At],
        instructions: u64,
        out: &mut Vec<Op>,
    ) {
        let all = (loads.len() + stores.len()) as u64;
        for point in 0..OF_AN_ELEMENT {
            let of = |array: &At| self.at(*array, element, point);
            put(loads.iter().map(of), stores.iter().map(of), instructions, all, out);
        }
    }

    fn mortars(
        &self,
        point: u64,
        loads: &[On],
        stores: &[On],
        instructions: u64,
        out: &mut Vec<Op>,
    ) {
        let all = (loads.len() + stores.len()) as u64;
        let of = |array: &On| self.on(*array, point);
        put(loads.iter().map(of), stores.iter().map(of), instructions, all, out);
    }

    /// The mortar points of a face, or of a quarter of it, line by line.
    fn points_of(
        &self,
        mesh: &Mesh,
        number: u64,
        face: usize,
        beyond: Beyond,
        quarter: u64,
    ) -> [u64; OF_A_FACE as usize] {
        let element = mesh.element(number);
        let axis = face / 2;
        let (fast, slow) = ((axis + 1) % 3, (axis + 2) % 3);
        let four = matches!(beyond, Beyond::Four(_));
        let side = if four { element.side / 2 } else { element.side };
        let mut corner = element.at;
        corner[axis] += if face % 2 == 1 { element.side } else { 0 };
        corner[fast] += (quarter & 1) as i64 * side;
        corner[slow] += (quarter >> 1) as i64 * side;
        let place = |a: u64, b: u64| {
            let mut place = corner;
            place[fast] += a as i64 * side;
            place[slow] += b as i64 * side;
            place
        };
        let mut all = [0; OF_A_FACE as usize];
        let last = AXIS - 1;
        let inner = mesh.face(number, face, beyond, quarter as usize);
        for b in 1..last {
            for a in 1..last {
                all[(b * AXIS + a) as usize] = inner + (b - 1) * EDGE + a - 1;
            }
        }
        for far in [0, 1] {
            let along = mesh.edge(place(0, far), fast, number);
            let across = mesh.edge(place(far, 0), slow, number);
            for point in 1..last {
                all[(far * last * AXIS + point) as usize] = along + point - 1;
                all[(point * AXIS + far * last) as usize] = across + point - 1;
            }
            for other in [0, 1] {
                let at = other * last * AXIS + far * last;
                all[at as usize] = mesh.vertex(place(far, other), number);
            }
        }
        all
    }

    /// The point of an element at a place of its face (idel).
    fn of_face(face: usize, point: u64) -> u64 {
        let far = if face % 2 == 1 { AXIS - 1 } else { 0 };
        let (fast, slow) = (point % AXIS, point / AXIS);
        match face / 2 {
            0 => far + fast * AXIS + slow * OF_A_FACE,
            1 => slow + far * AXIS + fast * OF_A_FACE,
            _ => fast + slow * AXIS + far * OF_A_FACE,
        }
    }

    /// A face of an element: values go from its mortar points to its own, or are added to them, each under its
    /// lock (transfer.f). Faces that meet four elements are mapped by matrices, in two steps.
    fn face(&self, mesh: &Mesh, number: u64, face: usize, kind: Loop, out: &mut Vec<Op>) {
        let (on, at, up) = match kind {
            ToElements(on, at) => (on, at, false),
            ToMortars(on, at) => (on, at, true),
            _ => return,
        };
        let beyond = mesh.beyond(mesh.element(number), face);
        out.push(Op::load(self.rest(number) + face as u64 * INDEX_BYTES, INDEX_BYTES as u16, 3));
        let quarters = if matches!(beyond, Beyond::Four(_)) { 4 } else { 1 };
        // Products with the matrix of each point: five for each of two steps.
        let mapping = if quarters == 4 { 20 } else { 1 };
        if up {
            self.own_points(number, face, at, false, mapping, out);
        }
        for quarter in 0..quarters {
            let points = self.points_of(mesh, number, face, beyond, quarter);
            for (point, mortar) in (0..).zip(points) {
                let index = self.idmo(number, face, quarter, point);
                out.push(Op::load(index, INDEX_BYTES as u16, 2));
                let mut by_index = MadeOf::LAST;
                let mortar_at = self.on(on, mortar);
                if up {
                    let lock = Op::store(self.lock(mortar), NUMBER_BYTES as u16, 4);
                    out.push(by_index.next(lock.with_flags(FLAG_ATOMIC)));
                }
                let loaded = Op::load(mortar_at, NUMBER_BYTES as u16, 1 + mapping as u32);
                out.push(by_index.next(loaded));
                if up {
                    for at in [mortar_at, self.lock(mortar)] {
                        out.push(by_index.next(Op::store(at, NUMBER_BYTES as u16, 2)));
                    }
                }
            }
        }
        if !up {
            self.own_points(number, face, at, true, mapping, out);
        }
    }

    /// The points of an element's face, by its index, stored or loaded.
    fn own_points(
        &self,
        number: u64,
        face: usize,
        at: At,
        store: bool,
        mapping: u64,
        out: &mut Vec<Op>,
    ) {
        let make = if store { Op::store } else { Op::load };
        for point in 0..OF_A_FACE {
            out.push(Op::load(self.idel(number, face, point), INDEX_BYTES as u16, 2));
            let own = self.at(at, number, Self::of_face(face, point));
            let made = make(own, NUMBER_BYTES as u16, 1 + mapping as u32);
            out.push(made.depending_on(1));
        }
    }

    fn boundary(&self, mesh: &Mesh, number: u64, at: At, out: &mut Vec<Op>) {
        let element = mesh.element(number);
        for face in 0..FACES {
            out.push(Op::load(
                self.rest(number) + face as u64 * INDEX_BYTES,
                INDEX_BYTES as u16,
                3,
            ));
            if mesh.beyond(element, face) == Beyond::Nothing {
                for point in 0..OF_A_FACE {
                    let own = self.at(at, number, Self::of_face(face, point));
                    out.push(Op::store(own, NUMBER_BYTES as u16, 2));
                }
            }
        }
    }

    /// What a change of the mesh does to an element: it is looked at, it moves to its place on the curve
    /// and back (move.f), its indices are made anew (mason.f), and what prepares the solution (precond.f).
    fn adapt(&self, element: u64, out: &mut Vec<Op>) {
        for offset in (0..REST_BYTES).step_by(NUMBER_BYTES as usize) {
            out.push(Op::load(self.rest(element) + offset, NUMBER_BYTES as u16, 4));
        }
        self.elements(element, &[Ta1], &[Ta2], 0, out);
        self.elements(element, &[Ta2], &[Ta1], 0, out);
        for offset in (0..IDMO_BYTES).step_by(INDEX_BYTES as usize) {
            out.push(Op::store(self.idmo(element, 0, 0, 0) + offset, INDEX_BYTES as u16, 4));
        }
        for offset in (0..IDEL_BYTES).step_by(INDEX_BYTES as usize) {
            out.push(Op::store(self.idel(element, 0, 0) + offset, INDEX_BYTES as u16, 4));
        }
        self.elements(element, &[], &[Dpcelm, Tmult], 6 * AXIS, out);
    }
}

/// Appends a point's loads and stores, with so many instructions more.
fn put(
    loads: impl Iterator<Item = u64>,
    stores: impl Iterator<Item = u64>,
    instructions: u64,
    all: u64,
    out: &mut Vec<Op>,
) {
    let made = loads.map(|at| Op::load(at, NUMBER_BYTES as u16, 1));
    let made = made.chain(stores.map(|at| Op::store(at, NUMBER_BYTES as u16, 1)));
    out.extend(
        (0..).zip(made).map(|(number, op)| Op {
            meta: op.meta + (part(instructions, number, all) << 32),
            ..op
        }),
    );
}

impl Units for Ua {
    fn threads(&self) -> u32 {
        self.threads
    }

    fn prelude(&self) -> Prelude {
        Prelude::table(self.bytes()).touch(BASE_ADDRESS, self.bytes(), self.touched)
    }

    fn units(&self, thread: ThreadId) -> u64 {
        self.steps * self.loops.len() as u64 * (self.pieces(thread) + 1)
    }

    fn unit(&self, thread: ThreadId, unit: u64, out: &mut Vec<Op>) {
        let of_a_loop = self.pieces(thread) + 1;
        let (number, piece) = (unit / of_a_loop, unit % of_a_loop);
        if piece + 1 == of_a_loop {
            return barrier(thread, self.threads, number + 1, out);
        }
        let loops = self.loops.len() as u64;
        let (step, kind) = (number / loops, self.loops[(number % loops) as usize]);
        let mesh = self.mesh(step / STEPS_OF_A_MESH);
        // A part of what the thread has of a whole, as large for each piece.
        let range = |whole: u64| {
            let own = share_of(whole, self.threads, thread);
            let first = first_of(whole, self.threads, thread);
            let of = |piece: u64| first + own * piece / (of_a_loop - 1);
            of(piece)..of(piece + 1)
        };
        if let Mortars(loads, stores, instructions) = kind {
            range(mesh.points())
                .for_each(|point| self.mortars(point, loads, stores, instructions, out));
            return;
        }
        for element in range(mesh.count()) {
            match kind {
                Elements(loads, stores, instructions) => {
                    self.elements(element, loads, stores, instructions, out);
                }
                ToElements(..) | ToMortars(..) => {
                    (0..FACES).for_each(|face| self.face(&mesh, element, face, kind, out));
                }
                Boundary(at) => self.boundary(&mesh, element, at, out),
                Adapt if (step + 1).is_multiple_of(STEPS_OF_A_MESH) => self.adapt(element, out),
                Adapt | Mortars(..) => {}
            }
        }
    }

    fn footprint(&self) -> Footprint {
        Footprint { bytes: self.bytes(), parameter: "class" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::stream_laws;
    use crate::generator::find;
    use crate::stream::Pull;
    use std::collections::BTreeSet;

    fn made(class: usize, steps: u64, threads: u32) -> Ua {
        let loops = Arc::new(loops());
        let size = Size::of(class);
        Ua { size, steps, threads, touched: false, loops, meshes: Arc::default() }
    }

    /// Of a mesh of few elements and two loops of each kind, as the laws take short workloads alone.
    #[test]
    fn the_streams_laws_hold() {
        let few = [EACH[1], EACH[3], EACH[4], EACH[5], EACH[6]];
        for threads in [1, 3] {
            stream_laws(|| {
                let size = Size { elements: 20, points: 1000, levels: 2, radius: 0.04 };
                let loops = Arc::new(few.to_vec());
                in_units(Ua { size, loops, touched: true, ..made(0, 1, threads) })
            });
        }
    }

    /// Meshes need most of the elements and mortar points that the benchmark keeps memory for, and no more:
    /// the source's rules are those of the mesh.
    #[test]
    fn meshes_need_the_memory_that_the_benchmark_keeps() {
        for class in 0..4 {
            let (mut elements, mut points) = (0, 0);
            let all = if class < 3 { STEPS[class] / STEPS_OF_A_MESH } else { 3 };
            for changes in 0..all {
                let mesh = made(class, 0, 1).mesh(changes);
                elements = elements.max(mesh.count());
                points = points.max(mesh.points());
            }
            for (found, kept) in [(elements, ELEMENTS[class]), (points, POINTS[class])] {
                let share = found as f64 / kept as f64;
                assert!((0.8..=1.0).contains(&share), "class {class}: {found} of {kept}");
            }
        }
    }

    /// \[NVM10\] Table III: 8 GB.
    #[test]
    fn memory_of_class_d_is_that_of_the_paper() {
        let sets = [("class".to_owned(), Value::from("D"))];
        let (stream, _) = find("nas/ua").unwrap().make(&sets, 0).unwrap();
        let bytes = stream.footprint().unwrap().bytes as f64;
        assert!((bytes / 8e9 - 1.0).abs() < 0.02, "{bytes}");
    }

    /// All threads' elements and points are all there are, once, in each loop.
    #[test]
    fn each_point_is_used_once_in_a_loop() {
        let loops = Arc::new(vec![Elements(&[], &[T], 0), Mortars(&[], &[Umor], 0)]);
        let ua = Ua { loops, ..made(1, 1, 3) };
        let mesh = ua.mesh(0);
        let mut stream = in_units(ua.clone());
        let mut found: Vec<u64> = Vec::new();
        for thread in 0..3 {
            let mut ops = Vec::new();
            while stream.pull(thread, 1 << 16, &mut ops).unwrap() == Pull::More {}
            found.extend(
                ops.iter().filter(|op| op.kind_code() == 2 && op.size() == 8).map(|op| op.word),
            );
        }
        let all = found.len() as u64;
        assert_eq!(all, mesh.count() * OF_AN_ELEMENT + mesh.points());
        assert_eq!(found.into_iter().collect::<BTreeSet<_>>().len() as u64, all, "once");
    }

    /// What a face gives to its mortar points, and takes from them, are the points of both its sides: each mortar
    /// point of an inner conforming face is met from two elements, and all are within the arrays.
    #[test]
    fn faces_meet_at_their_mortar_points() {
        let ua = made(1, 1, 1);
        let mesh = ua.mesh(0);
        let mut met = vec![0u32; mesh.points() as usize];
        let (mut whole, mut all) = (0, 0);
        for number in 0..mesh.count() {
            for face in 0..FACES {
                let beyond = mesh.beyond(mesh.element(number), face);
                let quarters = if matches!(beyond, Beyond::Four(_)) { 4 } else { 1 };
                for quarter in 0..quarters {
                    let points = ua.points_of(&mesh, number, face, beyond, quarter);
                    let inner = [6, 7, 8, 11, 12, 13, 16, 17, 18];
                    inner.iter().for_each(|at| met[points[*at] as usize] += 1);
                    assert!(points.iter().all(|point| *point < mesh.points()));
                    let different: BTreeSet<u64> = points.into_iter().collect();
                    whole += u64::from(different.len() == 25);
                    all += 1;
                }
            }
        }
        // Twice within, once at the border.
        assert!(met.iter().all(|met| *met <= 2));
        let twice = met.iter().filter(|met| **met == 2).count() as u64;
        assert!(twice > mesh.points() * 6 / 10, "{twice} of {}", mesh.points());
        // But for the border and for edges and vertices within those of a larger element.
        assert!(whole * 5 > all * 3, "{whole} of {all} faces have 25 points");
    }

    #[test]
    fn the_mesh_changes_every_fifth_step_and_follows_the_source() {
        let ua = made(1, 10, 1);
        let of_a_loop = ua.pieces(0) + 1;
        let adapts = |step: u64| {
            let first = ((step + 1) * ua.loops.len() as u64 - 1) * of_a_loop;
            let mut ops = Vec::new();
            (first..first + of_a_loop).for_each(|unit| ua.unit(0, unit, &mut ops));
            !ops.is_empty()
        };
        assert_eq!((0..10).filter(|step| adapts(*step)).collect::<Vec<_>>(), [4, 9]);
        assert_ne!(ua.mesh(0).count(), ua.mesh(9).count());
    }

    #[test]
    fn wrong_parameters_are_refused() {
        for (name, value, mend) in
            [("class", Value::from("E"), "S, W, A, B, C or D"), ("steps", 300.into(), "or full")]
        {
            let told = find("nas/ua").unwrap().make(&[(name.to_owned(), value)], 0).err().unwrap();
            assert!(told.to_string().contains(mend), "{told}");
        }
    }
}
