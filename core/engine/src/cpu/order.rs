//! Orders with NaN beyond every number, and the selections that upstream makes with C++'s standard algorithms. Which of
//! several equal elements those choose follows from their steps, so the steps are the same here.

use crate::cpu::rows::Real;
use crate::dtype::Element;

/// A number that can be ordered, NaN (where there is one) being greater than all others.
pub(crate) trait Ordered: Element + PartialOrd {
    fn nan(self) -> bool;
}
impl<T: Real> Ordered for T {
    #[inline(always)]
    fn nan(self) -> bool {
        Real::nan(self)
    }
}
impl Ordered for u16 {
    fn nan(self) -> bool {
        false
    }
}
impl Ordered for u32 {
    fn nan(self) -> bool {
        false
    }
}
impl Ordered for u64 {
    fn nan(self) -> bool {
        false
    }
}

/// Before in ascending order.
#[inline(always)]
pub(crate) fn less<T: Ordered>(a: T, b: T) -> bool {
    a < b || (!a.nan() && b.nan())
}
/// Before in descending order.
#[inline(always)]
pub(crate) fn greater<T: Ordered>(a: T, b: T) -> bool {
    a > b || (a.nan() && !b.nan())
}

/// A value and where it was.
pub(crate) type Item<T> = (T, i64);

fn cmp<T: Copy>(before: &impl Fn(T, T) -> bool, a: T, b: T) -> std::cmp::Ordering {
    if before(a, b) {
        std::cmp::Ordering::Less
    } else if before(b, a) {
        std::cmp::Ordering::Greater
    } else {
        std::cmp::Ordering::Equal
    }
}

/// Sorts; equal elements keep their order.
pub(crate) fn stable_sort<T: Copy>(v: &mut [Item<T>], before: impl Fn(T, T) -> bool) {
    v.sort_by(|a, b| cmp(&before, a.0, b.0));
}

/// Below this many elements insertion takes over.
const SMALL: usize = 16;

/// Moves the hole at `hole` down to a leaf along the later children, then lifts `value` from there.
fn adjust_heap<T: Copy>(v: &mut [T], mut hole: usize, value: T, before: &impl Fn(T, T) -> bool) {
    let (top, len) = (hole, v.len());
    let mut child = hole;
    while child < (len.max(1) - 1) / 2 {
        child = 2 * (child + 1);
        if before(v[child], v[child - 1]) {
            child -= 1;
        }
        v[hole] = v[child];
        hole = child;
    }
    if len.is_multiple_of(2) && len >= 2 && child == (len - 2) / 2 {
        child = 2 * (child + 1);
        v[hole] = v[child - 1];
        hole = child - 1;
    }
    while hole > top {
        let parent = (hole - 1) / 2;
        if !before(v[parent], value) {
            break;
        }
        v[hole] = v[parent];
        hole = parent;
    }
    v[hole] = value;
}

fn make_heap<T: Copy>(v: &mut [T], before: &impl Fn(T, T) -> bool) {
    for parent in (0..v.len() / 2).rev() {
        adjust_heap(v, parent, v[parent], before);
    }
}

fn sort_heap<T: Copy>(v: &mut [T], before: &impl Fn(T, T) -> bool) {
    for last in (1..v.len()).rev() {
        let value = v[last];
        v[last] = v[0];
        adjust_heap(&mut v[..last], 0, value, before);
    }
}

/// Leaves a heap of the first `k` elements in front.
fn heap_select<T: Copy>(v: &mut [T], k: usize, before: &impl Fn(T, T) -> bool) {
    make_heap(&mut v[..k], before);
    for i in k..v.len() {
        if before(v[i], v[0]) {
            let value = v[i];
            v[i] = v[0];
            adjust_heap(&mut v[..k], 0, value, before);
        }
    }
}

/// `std::partial_sort`: the first `k` elements, sorted, in front.
pub(crate) fn partial_sort<T: Copy>(v: &mut [T], k: usize, before: impl Fn(T, T) -> bool) {
    if k > 0 {
        heap_select(v, k, &before);
        sort_heap(&mut v[..k], &before);
    }
}

/// Moves the last element down to where it belongs in a sorted run that something before it bounds.
fn linear_insert<T: Copy>(v: &mut [T], mut at: usize, before: &impl Fn(T, T) -> bool) {
    let value = v[at];
    while at > 0 && before(value, v[at - 1]) {
        v[at] = v[at - 1];
        at -= 1;
    }
    v[at] = value;
}

fn insertion_sort<T: Copy>(v: &mut [T], before: &impl Fn(T, T) -> bool) {
    for i in 1..v.len() {
        linear_insert(v, i, before);
    }
}

/// Partitions around the median of three, which is moved to the front first; returns where the second part begins.
fn partition_pivot<T: Copy>(v: &mut [T], before: &impl Fn(T, T) -> bool) -> usize {
    let n = v.len();
    let (a, b, c) = (1, n / 2, n - 1);
    let median = if before(v[a], v[b]) {
        if before(v[b], v[c]) {
            b
        } else if before(v[a], v[c]) {
            c
        } else {
            a
        }
    } else if before(v[a], v[c]) {
        a
    } else if before(v[b], v[c]) {
        c
    } else {
        b
    };
    v.swap(0, median);
    let (mut i, mut j) = (1, n);
    loop {
        while before(v[i], v[0]) {
            i += 1;
        }
        j -= 1;
        while before(v[0], v[j]) {
            j -= 1;
        }
        if i >= j {
            return i;
        }
        v.swap(i, j);
        i += 1;
    }
}

fn depth(n: usize) -> u32 {
    2 * n.max(1).ilog2()
}

/// `std::nth_element`: the element at `nth` is the one that sorting would put there, what is before it comes no later.
pub(crate) fn nth_element<T: Copy>(v: &mut [T], nth: usize, before: impl Fn(T, T) -> bool) {
    if nth >= v.len() {
        return;
    }
    let (mut first, mut last, mut limit) = (0, v.len(), depth(v.len()));
    while last - first > 3 {
        if limit == 0 {
            heap_select(&mut v[first..last], nth + 1 - first, &before);
            v.swap(first, nth);
            return;
        }
        limit -= 1;
        let cut = first + partition_pivot(&mut v[first..last], &before);
        if cut <= nth {
            first = cut;
        } else {
            last = cut;
        }
    }
    insertion_sort(&mut v[first..last], &before);
}

fn introsort<T: Copy>(v: &mut [T], mut limit: u32, before: &impl Fn(T, T) -> bool) {
    let mut last = v.len();
    while last > SMALL {
        if limit == 0 {
            partial_sort(&mut v[..last], last, before);
            return;
        }
        limit -= 1;
        let cut = partition_pivot(&mut v[..last], before);
        introsort(&mut v[cut..last], limit, before);
        last = cut;
    }
}

/// `std::sort`: equal elements in the order that its steps leave them in.
pub(crate) fn sort<T: Copy>(v: &mut [T], before: impl Fn(T, T) -> bool) {
    if v.is_empty() {
        return;
    }
    introsort(v, depth(v.len()), &before);
    // One pass of insertion finishes what partitioning left in short runs.
    insertion_sort(v, &before);
}

/// Hoare's selection as upstream's `kthvalue` does it: the element at `k` is in its place.
pub(crate) fn quick_select<T: Copy>(v: &mut [Item<T>], k: usize, after: impl Fn(T, T) -> bool) {
    let (mut left, mut right) = (0, v.len().saturating_sub(1));
    loop {
        if right <= left {
            return;
        }
        if right == left + 1 {
            if after(v[left].0, v[right].0) {
                v.swap(left, right);
            }
            return;
        }
        v.swap((left + right) / 2, left + 1);
        for (a, b) in [(left + 1, right), (left, right), (left + 1, left)] {
            if after(v[a].0, v[b].0) {
                v.swap(a, b);
            }
        }
        let (mut i, mut j) = (left + 1, right);
        let pivot = v[left].0;
        loop {
            i += 1;
            while after(pivot, v[i].0) {
                i += 1;
            }
            j -= 1;
            while after(v[j].0, pivot) {
                j -= 1;
            }
            if j < i {
                break;
            }
            v.swap(i, j);
        }
        v.swap(left, j);
        if j <= k {
            left = i;
        }
        if j >= k {
            right = j.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(n: usize, distinct: u64) -> Vec<Item<f32>> {
        let mut s = 88172645463325252u64;
        (0..n as i64)
            .map(|i| {
                s ^= s << 13;
                s ^= s >> 7;
                s ^= s << 17;
                ((s % distinct) as f32, i)
            })
            .collect()
    }

    #[test]
    fn orders() {
        for n in [0, 1, 2, 3, 7, 16, 17, 100, 1000] {
            let mut sorted = values(n, 10);
            stable_sort(&mut sorted, less);
            let keys: Vec<f32> = sorted.iter().map(|x| x.0).collect();
            let by = |a: Item<f32>, b: Item<f32>| less(a.0, b.0);
            let mut v = values(n, 10);
            sort(&mut v, by);
            assert_eq!(v.iter().map(|x| x.0).collect::<Vec<_>>(), keys);
            for k in [0, 1, n / 3, n] {
                let k = k.min(n);
                let mut v = values(n, 10);
                partial_sort(&mut v, k, by);
                assert_eq!(v[..k].iter().map(|x| x.0).collect::<Vec<_>>(), keys[..k]);
                if k < n {
                    let mut v = values(n, 10);
                    nth_element(&mut v, k, by);
                    assert_eq!(v[k].0, keys[k]);
                    let mut v = values(n, 10);
                    quick_select(&mut v, k, greater);
                    assert_eq!(v[k].0, keys[k]);
                }
            }
        }
    }
}
