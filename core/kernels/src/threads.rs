//! The thread pool behind `torch.set_num_threads`.
//!
//! Work is split into numbered tasks that are claimed one at a time. The calling thread claims tasks too and waits
//! only for tasks that another thread has already started, so a worker the operating system has not yet woken, or
//! has descheduled, costs nothing: a fork-join barrier would wait for it.

/// Bounds that keep `parallel_for` from splitting work that is not worth a wake-up.
pub const MIN_TASK_NANOS: usize = 20_000;

pub use imp::{get_num_threads, parallel_for, set_num_threads};

/// Runs `f(start, end)` over a partition of `0..n` into ranges of at least `grain` items.
pub fn parallel_ranges(n: usize, grain: usize, f: impl Fn(usize, usize) + Sync) {
    if n == 0 {
        return;
    }
    let threads = get_num_threads();
    // A few ranges a thread, so that a slow thread does not hold the others up.
    let pieces = if threads == 1 { 1 } else { n.div_ceil(grain.max(1)).min(threads * 4).max(1) };
    if pieces == 1 {
        return f(0, n);
    }
    let step = n.div_ceil(pieces);
    parallel_for(n.div_ceil(step), |i| f(i * step, ((i + 1) * step).min(n)));
}

#[cfg(target_family = "wasm")]
mod imp {
    //! One thread: WebAssembly modules of Pyodide have no shared memory.

    pub fn get_num_threads() -> usize {
        1
    }

    pub fn set_num_threads(_n: usize) {}

    /// Runs `f(0)`, …, `f(tasks - 1)`.
    pub fn parallel_for(tasks: usize, f: impl Fn(usize) + Sync) {
        (0..tasks).for_each(f)
    }
}

#[cfg(not(target_family = "wasm"))]
mod imp {
    use std::any::Any;
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
    use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
    use std::sync::{Condvar, Mutex};
    use std::time::{Duration, Instant};

    static REQUESTED: AtomicUsize = AtomicUsize::new(0);

    /// How long an idle worker looks for more work before it sleeps. Consecutive operators of a model arrive
    /// within this time, and waking a sleeping thread costs more than many of them.
    const SPIN: Duration = Duration::from_micros(60);

    thread_local! {
        static INSIDE: Cell<bool> = const { Cell::new(false) };
    }

    /// The number of threads that kernels may use; by default the parallelism the system grants.
    pub fn get_num_threads() -> usize {
        match REQUESTED.load(Ordering::Relaxed) {
            0 => {
                let n = std::thread::available_parallelism().map_or(1, |n| n.get());
                REQUESTED.store(n, Ordering::Relaxed);
                n
            }
            n => n,
        }
    }

    /// Sets the number of threads that kernels may use, the caller included.
    pub fn set_num_threads(n: usize) {
        REQUESTED.store(n.max(1), Ordering::Relaxed);
    }

    /// One `parallel_for` call. Lives on the caller's stack.
    struct Job<'a> {
        run: &'a (dyn Fn(usize) + Sync),
        tasks: usize,
        next: AtomicUsize,
        /// How many more workers may join.
        seats: AtomicUsize,
        /// Workers that joined and have not left.
        active: AtomicUsize,
        panic: Mutex<Option<Box<dyn Any + Send>>>,
    }

    impl Job<'_> {
        fn work(&self) {
            loop {
                let i = self.next.fetch_add(1, Ordering::Relaxed);
                if i >= self.tasks {
                    return;
                }
                if let Err(p) = catch_unwind(AssertUnwindSafe(|| (self.run)(i))) {
                    self.next.store(self.tasks, Ordering::Relaxed);
                    *self.panic.lock().unwrap_or_else(|e| e.into_inner()) = Some(p);
                    return;
                }
            }
        }
    }

    struct State {
        /// The job that workers may join, null when there is none. Only changed under the lock.
        job: *const Job<'static>,
        spawned: usize,
    }
    // SAFETY: the pointer is only followed under the protocol described in `parallel_for`.
    unsafe impl Send for State {}

    struct Pool {
        pid: u32,
        state: Mutex<State>,
        wake: Condvar,
        /// Counts published jobs, so that spinning workers notice one without taking the lock.
        epoch: AtomicUsize,
        sleepers: AtomicUsize,
        /// Held by the caller whose job is published.
        busy: AtomicBool,
    }

    static POOL: AtomicPtr<Pool> = AtomicPtr::new(std::ptr::null_mut());

    /// The pool of this process. A forked child has none of its parent's threads, so it gets a fresh pool (and
    /// forgets the other one, whose locks may have been held at the fork).
    fn pool() -> &'static Pool {
        let pid = std::process::id();
        loop {
            let current = POOL.load(Ordering::Acquire);
            // SAFETY: pools are leaked, never freed once published.
            if let Some(p) = unsafe { current.as_ref() }
                && p.pid == pid
            {
                return p;
            }
            let fresh = Box::into_raw(Box::new(Pool {
                pid,
                state: Mutex::new(State { job: std::ptr::null(), spawned: 0 }),
                wake: Condvar::new(),
                epoch: AtomicUsize::new(0),
                sleepers: AtomicUsize::new(0),
                busy: AtomicBool::new(false),
            }));
            match POOL.compare_exchange(current, fresh, Ordering::AcqRel, Ordering::Acquire) {
                // SAFETY: just created, and leaked.
                Ok(_) => return unsafe { &*fresh },
                // SAFETY: not published, so still ours.
                Err(_) => drop(unsafe { Box::from_raw(fresh) }),
            }
        }
    }

    fn worker(pool: &'static Pool) {
        INSIDE.set(true);
        let mut seen = 0;
        loop {
            let start = Instant::now();
            let mut spins = 0u32;
            while pool.epoch.load(Ordering::Acquire) == seen {
                std::hint::spin_loop();
                spins += 1;
                if spins.is_multiple_of(64) && start.elapsed() > SPIN {
                    break;
                }
            }
            let mut state = pool.state.lock().unwrap_or_else(|e| e.into_inner());
            let job = loop {
                seen = pool.epoch.load(Ordering::Acquire);
                // SAFETY: a published job outlives the time it is published, and unpublishing takes this lock.
                match unsafe { state.job.as_ref() } {
                    Some(job) if job.seats.load(Ordering::Relaxed) > 0 => {
                        job.seats.fetch_sub(1, Ordering::Relaxed);
                        job.active.fetch_add(1, Ordering::Relaxed);
                        break job;
                    }
                    _ => {
                        pool.sleepers.fetch_add(1, Ordering::Relaxed);
                        state = pool.wake.wait(state).unwrap_or_else(|e| e.into_inner());
                        pool.sleepers.fetch_sub(1, Ordering::Relaxed);
                    }
                }
            };
            drop(state);
            job.work();
            // After this the job may be gone.
            job.active.fetch_sub(1, Ordering::Release);
        }
    }

    /// Runs `f(0)`, …, `f(tasks - 1)`, each exactly once, on up to [`get_num_threads`] threads, and returns when all
    /// are done. Called from inside a task, or while another thread's call is running, it runs them in the caller.
    /// A panic in a task is raised again here.
    pub fn parallel_for(tasks: usize, f: impl Fn(usize) + Sync) {
        let threads = get_num_threads().min(tasks);
        if threads <= 1 || INSIDE.get() {
            return (0..tasks).for_each(f);
        }
        let pool = pool();
        if pool.busy.swap(true, Ordering::Acquire) {
            return (0..tasks).for_each(f);
        }
        let job = Job {
            run: &f,
            tasks,
            next: AtomicUsize::new(0),
            seats: AtomicUsize::new(threads - 1),
            active: AtomicUsize::new(0),
            panic: Mutex::new(None),
        };
        {
            let mut state = pool.state.lock().unwrap_or_else(|e| e.into_inner());
            while state.spawned < threads - 1 {
                let name = format!("torchnative-{}", state.spawned + 1);
                if std::thread::Builder::new().name(name).spawn(|| worker(pool)).is_err() {
                    break; // fewer helpers; the caller does the rest
                }
                state.spawned += 1;
            }
            // Workers only join under this lock while the job is published, and it is unpublished below before this
            // frame ends, which is what makes the pretended lifetime true.
            state.job = (&raw const job).cast();
            pool.epoch.fetch_add(1, Ordering::Release);
            if pool.sleepers.load(Ordering::Relaxed) > 0 {
                pool.wake.notify_all();
            }
        }
        INSIDE.set(true);
        job.work();
        INSIDE.set(false);
        pool.state.lock().unwrap_or_else(|e| e.into_inner()).job = std::ptr::null();
        let mut spins = 0u32;
        while job.active.load(Ordering::Acquire) != 0 {
            spins += 1;
            // A worker in the middle of its last task: usually microseconds away, but it may be descheduled.
            if spins < 2000 { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
        pool.busy.store(false, Ordering::Release);
        let panic = job.panic.lock().unwrap_or_else(|e| e.into_inner()).take();
        if let Some(p) = panic {
            resume_unwind(p);
        }
    }
}
