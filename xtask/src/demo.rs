//! `cargo xtask demo`: a chat answer from a real checkpoint, streamed by unmodified transformers.

use crate::args::Args;
use crate::sh::{Result, root, sh};
use crate::{checkpoint, dev, native, pyodide};

pub const HELP: &str = "stream a chat answer in Pyodide under Node, or natively with --native\n\
    (--prompt TEXT --max-new-tokens N --dtype float32|bfloat16|float16 --sample --seed N)";

/// What to generate.
pub struct Options {
    /// The user's message.
    pub prompt: String,
    /// At most this many tokens are generated.
    pub max_new_tokens: u64,
    /// The dtype the model is loaded in.
    pub dtype: String,
    /// Sample instead of taking the likeliest token.
    pub sample: bool,
    /// The seed when sampling.
    pub seed: u64,
}

impl Options {
    fn take(args: &mut Args) -> Result<Self> {
        Ok(Self {
            prompt: args.value("--prompt")?.unwrap_or_else(|| "What is gravity?".into()),
            max_new_tokens: args.number("--max-new-tokens")?.unwrap_or(64),
            dtype: args
                .choice("--dtype", &["float32", "bfloat16", "float16"])?
                .unwrap_or_else(|| "float32".into()),
            sample: args.switch("--sample"),
            seed: args.number("--seed")?.unwrap_or(0),
        })
    }

    /// The options as the flags of `xtask/py/demo.py`.
    pub fn words(&self) -> Vec<String> {
        let mut words: Vec<String> =
            vec![format!("--prompt={}", self.prompt), format!("--dtype={}", self.dtype)];
        words.push(format!("--max-new-tokens={}", self.max_new_tokens));
        words.push(format!("--seed={}", self.seed));
        if self.sample {
            words.push("--sample".into());
        }
        words
    }
}

pub fn run(mut args: Args) -> Result {
    let natively = args.switch("--native");
    let options = Options::take(&mut args)?;
    let profile = native::profile(&mut args)?;
    args.finish()?;
    if !natively {
        return pyodide::demo(&options);
    }
    let python = dev::ready(&profile)?;
    let checkpoint = checkpoint::folder()?;
    sh(python).arg(root().join("xtask/py/demo.py")).arg(checkpoint).args(options.words()).run()
}
