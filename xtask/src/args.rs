//! Flags of one command. A flag nobody asks for is an error, so a misspelling never passes silently.

use crate::fail;
use crate::sh::Result;

/// The words after the command's name.
pub struct Args {
    words: Vec<String>,
}

impl Args {
    /// Takes the words after the command's name.
    pub fn new(words: Vec<String>) -> Self {
        Self { words }
    }

    /// Whether `--help` or `-h` is among them.
    pub fn wants_help(&self) -> bool {
        self.words.iter().any(|word| word == "--help" || word == "-h")
    }

    /// Takes the switch `name`; true when it was given.
    pub fn switch(&mut self, name: &str) -> bool {
        let before = self.words.len();
        self.words.retain(|word| word != name);
        self.words.len() != before
    }

    /// Takes the value of `name`, written `--name value` or `--name=value`.
    pub fn value(&mut self, name: &str) -> Result<Option<String>> {
        let joined = format!("{name}=");
        let Some(at) = self.words.iter().position(|word| word == name || word.starts_with(&joined)) else {
            return Ok(None);
        };
        let word = self.words.remove(at);
        if let Some(value) = word.strip_prefix(&joined) {
            return Ok(Some(value.to_owned()));
        }
        if at >= self.words.len() {
            fail!("{name} needs a value");
        }
        Ok(Some(self.words.remove(at)))
    }

    /// Takes the value of `name` as one of `choices`.
    pub fn choice(&mut self, name: &str, choices: &[&str]) -> Result<Option<String>> {
        let value = self.value(name)?;
        if let Some(value) = &value
            && !choices.contains(&value.as_str())
        {
            fail!("{name} must be one of {}, not `{value}`", choices.join(", "));
        }
        Ok(value)
    }

    /// Takes the value of `name` as a number.
    pub fn number(&mut self, name: &str) -> Result<Option<u64>> {
        let Some(value) = self.value(name)? else { return Ok(None) };
        match value.parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => fail!("{name} must be a whole number, not `{value}`"),
        }
    }

    /// Takes the words that are not flags. Call it after the flags were taken.
    pub fn names(&mut self) -> Vec<String> {
        let (flags, names) = std::mem::take(&mut self.words).into_iter().partition(|w| w.starts_with('-'));
        self.words = flags;
        names
    }

    /// Takes whatever is left, for a program that reads its own flags.
    pub fn rest(self) -> Vec<String> {
        self.words
    }

    /// Fails when a word is left that nothing took.
    pub fn finish(self) -> Result {
        match self.words.first() {
            Some(word) => fail!("unknown argument `{word}`"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Args;

    fn args(words: &[&str]) -> Args {
        Args::new(words.iter().map(|word| (*word).to_owned()).collect())
    }

    #[test]
    fn values_are_read_in_both_spellings() {
        let mut given = args(&["--a", "1", "--b=x=y", "--on", "name"]);
        assert_eq!(given.number("--a").unwrap(), Some(1));
        assert_eq!(given.value("--b").unwrap().as_deref(), Some("x=y"));
        assert!(given.switch("--on"));
        assert!(!given.switch("--off"));
        assert_eq!(given.names(), ["name"]);
        assert!(given.finish().is_ok());
    }

    #[test]
    fn what_nobody_takes_is_an_error() {
        assert_eq!(args(&["--dtypo", "x"]).finish().unwrap_err().to_string(), "unknown argument `--dtypo`");
    }

    #[test]
    fn bad_values_are_named() {
        assert_eq!(args(&["--a"]).value("--a").unwrap_err().to_string(), "--a needs a value");
        let error = args(&["--a", "z"]).number("--a").unwrap_err().to_string();
        assert_eq!(error, "--a must be a whole number, not `z`");
        let error = args(&["--a", "z"]).choice("--a", &["x", "y"]).unwrap_err().to_string();
        assert_eq!(error, "--a must be one of x, y, not `z`");
    }
}
