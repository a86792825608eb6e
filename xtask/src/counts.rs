//! How many tests passed and failed, read from what the test programs print.

use std::ops::AddAssign;

/// Tests that passed and tests that did not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Tests that passed.
    pub passed: u64,
    /// Tests that failed or could not run.
    pub failed: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

impl Counts {
    /// The counts of a step that `succeeded` and printed `text`. A step that counts nothing is one test itself,
    /// and one that failed without naming a test has one failure.
    pub fn read(succeeded: bool, text: &str) -> Self {
        let mut counts = Self::default();
        for line in text.lines().filter(|line| is_summary(line)) {
            counts.passed += before(line, "passed");
            counts.failed += before(line, "failed") + before(line, "error") + before(line, "errors");
        }
        match succeeded {
            true if counts == Self::default() => Self { passed: 1, failed: 0 },
            false if counts.failed == 0 => Self { failed: 1, ..counts },
            _ => counts,
        }
    }
}

/// Whether `line` is a test program's summary: cargo's `test result: …`, pytest's `3 passed in 1.0s`, or a plain
/// `3 passed, 0 failed`.
fn is_summary(line: &str) -> bool {
    let line = line.trim_matches(|c| c == '=' || c == ' ');
    line.starts_with("test result:")
        || (line.starts_with(|c: char| c.is_ascii_digit())
            && (line.contains(" passed") || line.contains(" failed") || line.contains(" error")))
}

/// The number that stands before `word`.
fn before(line: &str, word: &str) -> u64 {
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = words.iter().skip(1).position(|w| w.trim_matches(|c: char| !c.is_alphanumeric()) == word);
    at.and_then(|at| words[at].parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::Counts;

    fn read(succeeded: bool, text: &str) -> (u64, u64) {
        let counts = Counts::read(succeeded, text);
        (counts.passed, counts.failed)
    }

    #[test]
    fn each_program_is_understood() {
        let cargo = "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured\n\
                     test result: FAILED. 3 passed; 2 failed; 0 ignored";
        assert_eq!(read(false, cargo), (15, 2));
        assert_eq!(read(true, "======= 7 passed, 1 skipped in 3.21s ======="), (7, 0));
        assert_eq!(read(false, "2 failed, 5 passed, 1 error in 0.12s"), (5, 3));
        assert_eq!(read(true, "5 passed, 0 failed"), (5, 0));
    }

    #[test]
    fn a_step_without_tests_is_one_test() {
        assert_eq!(read(true, "All checks passed!"), (1, 0));
        assert_eq!(read(false, "boom"), (0, 1));
        assert_eq!(read(false, "4 passed in 1s"), (4, 1));
    }
}
