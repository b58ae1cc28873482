//! The mesh of `nas/ua`: elements of a cube, each a cube of half the side of its parent or the whole, in the order
//! of Morton's curve (`adapt.f`, `move.f` of NPB 3.3's OpenMP source).
//!
//! Whatever touches the heat source, a ball, has the smallest elements; elsewhere they are as large as may be
//! beside others, of which one that meets another at a face or an edge is at most twice as large (`find_refine`,
//! `check_refine`, `icheck`). A mesh follows from the ball's place alone.

/// The ball at the beginning, and how it moves (`header.h`: x00, y00, z00, velx to velz).
const CENTRE: [f64; 3] = [3.0 / 7.0, 2.0 / 7.0, 2.0 / 7.0];
const VELOCITY: f64 = 3.0;
/// A time step, of the side of the smallest elements (`ua.f`, dtime).
const STEP: f64 = 0.04;

/// Sides of an element by axis: below and above.
pub(super) const FACES: usize = 6;

/// An element: its lowest corner in sides of the smallest ones, and its own side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Element {
    pub at: [i64; 3],
    pub side: i64,
}

/// What is on the other side of a face.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beyond {
    Nothing,
    /// One as large, or larger.
    One(u64),
    Larger(u64),
    /// Four of half the side.
    Four([u64; 4]),
}

/// All elements.
#[derive(Clone, Debug)]
pub(super) struct Mesh {
    /// Sides of the smallest elements in that of the whole.
    whole: i64,
    /// By Morton's curve: the code of the lowest corner, and behind it the level, of four bits.
    codes: Vec<u64>,
    /// Upper faces at the border or below a larger element, of the elements before each.
    upper: Vec<u32>,
}

impl Mesh {
    /// After so many time steps, of elements down to so many halvings and a ball of that radius.
    pub fn after(steps: u64, levels: u32, radius: f64) -> Mesh {
        let time = steps as f64 * STEP * 0.5f64.powi(levels as i32);
        let centre = CENTRE.map(|at| at + VELOCITY * time);
        let split = split(levels, centre, radius * radius);
        let mut codes = Vec::new();
        collect(&split, levels, 0, [0; 3], &mut codes);
        codes.sort_unstable();
        let mut mesh = Mesh { whole: 1 << levels, codes, upper: Vec::new() };
        let mut before = 0;
        for number in 0..mesh.count() {
            mesh.upper.push(before);
            let above =
                (0..3).filter(|axis| mesh.has_own_points_above(mesh.element(number), *axis));
            before += above.count() as u32;
        }
        mesh.upper.push(before);
        mesh
    }

    pub fn count(&self) -> u64 {
        self.codes.len() as u64
    }

    pub fn element(&self, number: u64) -> Element {
        let code = self.codes[number as usize];
        Element {
            at: [0, 1, 2].map(|axis| gathered(code >> 4 >> axis)),
            side: self.whole >> (code & 15),
        }
    }

    /// The element at a place, if it is within the whole.
    pub fn find(&self, at: [i64; 3]) -> Option<u64> {
        let within = at.iter().all(|at| (0..self.whole).contains(at));
        let code = morton(at) << 4 | 15;
        within.then(|| self.codes.partition_point(|one| *one <= code) as u64 - 1)
    }

    /// What lies beyond a face: twice its axis, and one more for the upper one.
    pub fn beyond(&self, element: Element, face: usize) -> Beyond {
        let (axis, upper) = (face / 2, face % 2 == 1);
        let mut at = element.at;
        at[axis] += if upper { element.side } else { -1 };
        let Some(one) = self.find(at) else { return Beyond::Nothing };
        let side = self.element(one).side;
        if side == element.side {
            return Beyond::One(one);
        }
        if side > element.side {
            return Beyond::Larger(one);
        }
        Beyond::Four([0, 1, 2, 3].map(|quarter| {
            let mut place = at;
            place[(axis + 1) % 3] += (quarter & 1) * side;
            place[(axis + 2) % 3] += (quarter >> 1) * side;
            self.find(place).unwrap_or(one)
        }))
    }

    fn has_own_points_above(&self, element: Element, axis: usize) -> bool {
        matches!(self.beyond(element, 2 * axis + 1), Beyond::Larger(_) | Beyond::Nothing)
    }

    // ---- Mortar points: those of vertices first, one of each element's lowest corner; then of each element
    // three of each of its lowest edges, nine of each of its lower faces, and nine of each upper one at the
    // border or below a larger element.

    /// Points in all.
    pub fn points(&self) -> u64 {
        self.own(self.count())
    }

    fn own(&self, number: u64) -> u64 {
        self.count()
            + number * (3 * EDGE + 3 * FACE)
            + u64::from(self.upper[number as usize]) * FACE
    }

    /// The point of the vertex at a place.
    pub fn vertex(&self, at: [i64; 3], element: u64) -> u64 {
        self.find(at).unwrap_or(element)
    }

    /// The first point of the edge along an axis from a place.
    pub fn edge(&self, at: [i64; 3], axis: usize, element: u64) -> u64 {
        self.own(self.find(at).unwrap_or(element)) + axis as u64 * EDGE
    }

    /// The first point within a face of an element, or of that quarter of it.
    pub fn face(&self, number: u64, face: usize, beyond: Beyond, quarter: usize) -> u64 {
        let lower = |owner: u64| self.own(owner) + 3 * EDGE + (face / 2) as u64 * FACE;
        match (beyond, face % 2 == 1) {
            (Beyond::One(one), true) => lower(one),
            (Beyond::Four(four), true) => lower(four[quarter]),
            (Beyond::Four(four), false) => self.above(four[quarter], face / 2),
            (Beyond::Larger(_) | Beyond::Nothing, true) => self.above(number, face / 2),
            _ => lower(number),
        }
    }

    /// The first point of an upper face of an element that has its own.
    fn above(&self, number: u64, axis: usize) -> u64 {
        let element = self.element(number);
        let earlier = (0..axis).filter(|axis| self.has_own_points_above(element, *axis)).count();
        self.own(number) + 3 * EDGE + (3 + earlier as u64) * FACE
    }
}

/// Points within an edge and within a face (lx1 less two ends).
pub(super) const EDGE: u64 = 3;
pub(super) const FACE: u64 = 9;

/// Elements of each level that have parts, by the codes of their places on it.
fn split(levels: u32, centre: [f64; 3], radius_squared: f64) -> Vec<Vec<u64>> {
    let mut split = vec![Vec::new(); levels as usize];
    touched(&mut split, 0, [0; 3], centre, radius_squared);
    for level in (1..levels as usize).rev() {
        split[level].sort_unstable();
        split[level].dedup();
        let mut parents = Vec::new();
        for code in &split[level] {
            let at = [0, 1, 2].map(|axis| gathered(code >> axis));
            for away in neighbours() {
                let place = [0, 1, 2].map(|axis| at[axis] + away[axis]);
                if place.iter().all(|at| (0..1 << level).contains(at)) {
                    parents.push(morton(place.map(|at| at / 2)));
                }
            }
        }
        split[level - 1].extend(parents);
    }
    split[0].dedup();
    split
}

/// Those that touch the ball, down to the smallest but one.
fn touched(
    split: &mut [Vec<u64>],
    level: usize,
    at: [i64; 3],
    centre: [f64; 3],
    radius_squared: f64,
) {
    if level == split.len() {
        return;
    }
    let side = 0.5f64.powi(level as i32);
    let away = |axis: usize| {
        let low = at[axis] as f64 * side;
        (low - centre[axis]).max(centre[axis] - low - side).max(0.0)
    };
    if [0, 1, 2].map(away).iter().map(|away| away * away).sum::<f64>() < radius_squared {
        split[level].push(morton(at));
        for part in 0..8 {
            let place = [0, 1, 2].map(|axis| 2 * at[axis] + (part >> axis & 1));
            touched(split, level + 1, place, centre, radius_squared);
        }
    }
}

/// The ways to what shares a face or an edge.
fn neighbours() -> impl Iterator<Item = [i64; 3]> {
    let all = (0..27).map(|number| [number / 9 - 1, number / 3 % 3 - 1, number % 3 - 1]);
    all.filter(|away| (1..=2).contains(&away.iter().map(|one: &i64| one.abs()).sum::<i64>()))
}

/// Appends the codes of what has no parts below a place.
fn collect(split: &[Vec<u64>], levels: u32, level: u32, at: [i64; 3], out: &mut Vec<u64>) {
    let code = morton(at);
    let has_parts =
        split.get(level as usize).is_some_and(|level| level.binary_search(&code).is_ok());
    if !has_parts {
        return out.push((code << (3 * (levels - level))) << 4 | u64::from(level));
    }
    for part in 0..8 {
        let place = [0, 1, 2].map(|axis| 2 * at[axis] + (part >> axis & 1));
        collect(split, levels, level + 1, place, out);
    }
}

/// Bits of three numbers in turn.
fn morton(at: [i64; 3]) -> u64 {
    at.iter().zip(0..).map(|(at, axis)| scattered(*at as u64) << axis).sum()
}

/// Each bit to a place of three, of up to sixteen.
fn scattered(bits: u64) -> u64 {
    (0..16).map(|bit| (bits >> bit & 1) << (3 * bit)).sum()
}

fn gathered(code: u64) -> i64 {
    (0..16).map(|bit| ((code >> (3 * bit) & 1) << bit) as i64).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Elements fill the whole without a gap, each is found at its corners, and none meets one at a face or an edge
    /// that is more than twice as large; what touches the ball has the smallest side.
    #[test]
    fn elements_fill_the_cube_and_neighbours_differ_by_a_level() {
        for steps in [0, 5, 20] {
            let mesh = Mesh::after(steps, 5, 0.06);
            let volume: i64 = (0..mesh.count()).map(|one| mesh.element(one).side.pow(3)).sum();
            assert_eq!(volume, 32i64.pow(3));
            for number in 0..mesh.count() {
                let element = mesh.element(number);
                let last = element.at.map(|at| at + element.side - 1);
                assert_eq!((mesh.find(element.at), mesh.find(last)), (Some(number), Some(number)));
                let ways = (0..27).map(|way| [way / 9 - 1, way / 3 % 3 - 1, way % 3 - 1i64]);
                for away in ways.filter(|way| way.contains(&0)) {
                    // All unit cells just beyond the face or edge.
                    let range = |axis: usize| match away[axis] {
                        -1 => element.at[axis] - 1..element.at[axis],
                        1 => element.at[axis] + element.side..element.at[axis] + element.side + 1,
                        _ => element.at[axis]..element.at[axis] + element.side,
                    };
                    for (x, y, z) in range(0)
                        .flat_map(|x| range(1).flat_map(move |y| range(2).map(move |z| (x, y, z))))
                    {
                        let Some(other) = mesh.find([x, y, z]) else { continue };
                        let side = mesh.element(other).side;
                        assert!(2 * side >= element.side && side <= 2 * element.side);
                    }
                }
            }
        }
    }

    /// Each mortar point is of one face, edge or vertex; both sides of a face have the same.
    #[test]
    fn both_sides_of_a_face_have_its_points() {
        let mesh = Mesh::after(3, 5, 0.06);
        let mut first: BTreeSet<u64> = BTreeSet::new();
        for number in 0..mesh.count() {
            let element = mesh.element(number);
            for face in 0..FACES {
                let beyond = mesh.beyond(element, face);
                match beyond {
                    Beyond::One(other) => {
                        let back = mesh.beyond(mesh.element(other), face ^ 1);
                        assert_eq!(back, Beyond::One(number));
                        let own = mesh.face(number, face, beyond, 0);
                        assert_eq!(own, mesh.face(other, face ^ 1, back, 0));
                        first.insert(own);
                    }
                    Beyond::Four(four) => {
                        for (quarter, small) in four.into_iter().enumerate() {
                            let back = mesh.beyond(mesh.element(small), face ^ 1);
                            assert_eq!(back, Beyond::Larger(number));
                            let own = mesh.face(number, face, beyond, quarter);
                            assert_eq!(own, mesh.face(small, face ^ 1, back, 0));
                            first.insert(own);
                        }
                    }
                    Beyond::Larger(_) | Beyond::Nothing => {}
                }
            }
        }
        let all: Vec<u64> = first.into_iter().collect();
        assert!(all.windows(2).all(|two| two[0] + FACE <= two[1]), "faces share points");
        assert!(all[0] >= mesh.count() && all[all.len() - 1] + FACE <= mesh.points());
    }
}
