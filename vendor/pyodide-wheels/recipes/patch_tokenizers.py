#!/usr/bin/env python3
"""patch_tokenizers.py SDIST_FOLDER: makes the tokenizers 0.23 bindings build for wasm32-unknown-emscripten.

1. tokio and pyo3-async-runtimes go. The async_* methods keep working: the work is done at once and an asyncio future
   that is already finished is returned.
2. No pthread_atfork: there is no fork, and the libc crate has no such symbol for Emscripten.
3. esaxx_fast (C++) is off, the crate's own suffix array in Rust serves. Oniguruma (C) stays on, so that patterns split
   text exactly as in the native wheels.
4. rayon is off unless TOKENIZERS_PARALLELISM asks for it, and its global pool is the calling thread: there are no
   threads, and the Unigram trainer uses the pool in any case.
"""

import re
import sys
from pathlib import Path

ASYNC = """\
//! Stands in for tokio and pyo3-async-runtimes where there are no threads: the work is done at once.
use pyo3::{prelude::*, IntoPyObjectExt};
use std::future::Future;
use std::task::{Context, Poll, Waker};

pub struct Runtime;

impl Runtime {
    pub fn spawn_blocking<R>(
        &self,
        f: impl FnOnce() -> R,
    ) -> std::future::Ready<Result<R, std::convert::Infallible>> {
        std::future::ready(Ok(f()))
    }
}

/// An asyncio future that is already done.
pub fn future_into_py<F, T>(py: Python<'_>, fut: F) -> PyResult<Bound<'_, PyAny>>
where
    F: Future<Output = PyResult<T>>,
    T: for<'py> IntoPyObject<'py>,
{
    let future = py
        .import("asyncio")?
        .call_method0("get_running_loop")?
        .call_method0("create_future")?;
    let mut fut = std::pin::pin!(fut);
    match fut.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(v)) => future.call_method1("set_result", (v.into_py_any(py)?,))?,
        Poll::Ready(Err(e)) => future.call_method1("set_exception", (e.into_value(py),))?,
        Poll::Pending => unreachable!("nothing here waits"),
    };
    Ok(future)
}
"""

RAYON = r"""\g<0>\1#[cfg(target_os = "emscripten")]
\1let _ = rayon::ThreadPoolBuilder::new()
\1    .num_threads(1)
\1    .use_current_thread()
\1    .build_global();
"""


def substitute(path: Path, *pairs: tuple[str, str]) -> None:
    """Replaces each pattern; a pattern that matches nothing means another version of the sources."""
    text = path.read_text(encoding="utf-8")
    for pattern, replacement in pairs:
        text, count = re.subn(pattern, replacement, text, flags=re.MULTILINE)
        if not count:
            sys.exit(f"{path}: nothing matches {pattern!r}")
    path.write_text(text, encoding="utf-8")


def patch(root: Path) -> None:
    bindings = root / "bindings/python"
    substitute(
        bindings / "Cargo.toml",
        (r"^pyo3-async-runtimes = .*\n", ""),
        (r"^tokio = .*\n", ""),
        (
            r'^path = "../../tokenizers"$',
            'path = "../../tokenizers"\ndefault-features = false\nfeatures = ["progressbar", "onig"]',
        ),
    )
    substitute(
        bindings / "src/lib.rs",
        (r"^use tokio::runtime::Runtime;", "mod wasm_async;\nuse wasm_async::Runtime;"),
        (
            r"(?s)    let rt = tokio::runtime::Builder::new_multi_thread\(\).*?;\n    Arc::new\(rt\)",
            "    Arc::new(Runtime)",
        ),
        (r"^( *)let _ = env_logger::try_init_from_env.*\n", RAYON),
        (
            r'#\[cfg\(target_family = "unix"\)\]',
            '#[cfg(all(target_family = "unix", not(target_os = "emscripten")))]',
        ),
    )
    substitute(
        bindings / "src/tokenizer.rs",
        (r"pyo3_async_runtimes::tokio::future_into_py", "crate::wasm_async::future_into_py"),
    )
    substitute(
        root / "tokenizers/src/utils/parallelism.rs",
        (r"Err\(_\) => true,", 'Err(_) => !cfg!(target_os = "emscripten"),'),
    )
    (bindings / "src/wasm_async.rs").write_text(ASYNC, encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    patch(Path(sys.argv[1]))
