//! Typed inner loops over an iteration. Contiguous runs go through slices, so that the compiler vectorises them.

use super::TensorIterator;

const fn sz<T>() -> i64 {
    std::mem::size_of::<T>() as i64
}

/// `out = f()`
pub fn nullary<O: Copy + Send + Sync>(it: &TensorIterator, f: impl Fn() -> O + Sync) {
    it.for_each(|p, s, n| {
        for i in 0..n as i64 {
            // SAFETY: the walk stays inside the operands, whose loop dtype is O.
            unsafe { (p[0].wrapping_offset((i * s[0]) as isize) as *mut O).write(f()) }
        }
    })
}

/// `out = f(a)`
pub fn unary<A: Copy, O: Copy>(it: &TensorIterator, f: impl Fn(A) -> O + Sync) {
    it.for_each(|p, s, n| {
        let (out, a) = (p[0], p[1]);
        // SAFETY: the walk stays inside the operands, whose loop dtypes are O and A.
        unsafe {
            if s[0] == sz::<O>() && s[1] == sz::<A>() {
                let (out, a) = (out as *mut O, a as *const A);
                for i in 0..n {
                    out.add(i).write(f(a.add(i).read()));
                }
            } else {
                for i in 0..n as isize {
                    let x = (a.wrapping_offset(i * s[1] as isize) as *const A).read();
                    (out.wrapping_offset(i * s[0] as isize) as *mut O).write(f(x));
                }
            }
        }
    })
}

/// `out = f(a, b)`
pub fn binary<A: Copy, B: Copy, O: Copy>(it: &TensorIterator, f: impl Fn(A, B) -> O + Sync) {
    it.for_each(|p, s, n| {
        let (out, a, b) = (p[0], p[1], p[2]);
        // SAFETY: the walk stays inside the operands, whose loop dtypes are O, A and B.
        unsafe {
            if s[0] == sz::<O>() && s[1] == sz::<A>() && s[2] == sz::<B>() {
                let (out, a, b) = (out as *mut O, a as *const A, b as *const B);
                for i in 0..n {
                    out.add(i).write(f(a.add(i).read(), b.add(i).read()));
                }
            } else if s[0] == sz::<O>() && s[1] == sz::<A>() && s[2] == 0 {
                let (out, a, y) = (out as *mut O, a as *const A, (b as *const B).read());
                for i in 0..n {
                    out.add(i).write(f(a.add(i).read(), y));
                }
            } else if s[0] == sz::<O>() && s[1] == 0 && s[2] == sz::<B>() {
                let (out, x, b) = (out as *mut O, (a as *const A).read(), b as *const B);
                for i in 0..n {
                    out.add(i).write(f(x, b.add(i).read()));
                }
            } else {
                for i in 0..n as isize {
                    let x = (a.wrapping_offset(i * s[1] as isize) as *const A).read();
                    let y = (b.wrapping_offset(i * s[2] as isize) as *const B).read();
                    (out.wrapping_offset(i * s[0] as isize) as *mut O).write(f(x, y));
                }
            }
        }
    })
}

/// `out = f(a, b, c)`
pub fn ternary<A: Copy, B: Copy, C: Copy, O: Copy>(it: &TensorIterator, f: impl Fn(A, B, C) -> O + Sync) {
    it.for_each(|p, s, n| {
        for i in 0..n as isize {
            // SAFETY: the walk stays inside the operands, whose loop dtypes are O, A, B and C.
            unsafe {
                let x = (p[1].wrapping_offset(i * s[1] as isize) as *const A).read();
                let y = (p[2].wrapping_offset(i * s[2] as isize) as *const B).read();
                let z = (p[3].wrapping_offset(i * s[3] as isize) as *const C).read();
                (p[0].wrapping_offset(i * s[0] as isize) as *mut O).write(f(x, y, z));
            }
        }
    })
}

/// `out = f(a)` in this thread and in order, for functions with state (random draws).
pub fn serial_unary<A: Copy, O: Copy>(it: &TensorIterator, mut f: impl FnMut(A) -> O) {
    it.serial_for_each(|p, s, n| {
        for i in 0..n as isize {
            // SAFETY: the walk stays inside the operands, whose loop dtypes are O and A.
            unsafe {
                let x = (p[1].wrapping_offset(i * s[1] as isize) as *const A).read();
                (p[0].wrapping_offset(i * s[0] as isize) as *mut O).write(f(x));
            }
        }
    })
}

/// `out = f()` in this thread and in order.
pub fn serial_nullary<O: Copy>(it: &TensorIterator, mut f: impl FnMut() -> O) {
    it.serial_for_each(|p, s, n| {
        for i in 0..n as isize {
            // SAFETY: the walk stays inside the output, whose loop dtype is O.
            unsafe { (p[0].wrapping_offset(i * s[0] as isize) as *mut O).write(f()) }
        }
    })
}
