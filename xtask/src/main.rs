//! `cargo xtask …`: the one entry to every build, run, test and benchmark of torchnative.
//!
//! Each command lives in the file that bears its name. What several of them need stands beside them:
//! [`args`] (flags), [`sh`] (running commands), [`python`] (finding an interpreter), [`cache`] (where
//! downloads live), [`venv`] (the project's Python environment), [`apt`] (system packages).

mod apt;
mod args;
mod bench;
mod cache;
mod checkpoint;
mod conformance;
mod counts;
mod demo;
mod dev;
mod doctor;
mod golden;
mod native;
mod oracle;
mod pyodide;
mod python;
mod sh;
mod test;
mod tidy;
mod vendor;
mod venv;
mod wheel;

use args::Args;
use sh::Result;

/// A command: its name, one line of help, and what runs it.
struct Command {
    name: &'static str,
    help: &'static str,
    run: fn(Args) -> Result,
}

/// Every command, in the order `--help` lists them.
const COMMANDS: &[Command] = &[
    Command { name: "demo", help: demo::HELP, run: demo::run },
    Command { name: "test", help: test::HELP, run: test::run },
    Command { name: "dev", help: dev::HELP, run: dev::run },
    Command { name: "vendor", help: vendor::HELP, run: vendor::run },
    Command { name: "checkpoint", help: checkpoint::HELP, run: checkpoint::run },
    Command { name: "wheel", help: wheel::HELP, run: wheel::run },
    Command { name: "conformance", help: conformance::HELP, run: conformance::run },
    Command { name: "bench", help: bench::HELP, run: bench::run },
    Command { name: "golden", help: golden::HELP, run: golden::run },
    Command { name: "oracle", help: oracle::HELP, run: oracle::run },
    Command { name: "doctor", help: doctor::HELP, run: doctor::run },
    Command { name: "tidy", help: tidy::HELP, run: tidy::run },
];

fn usage() -> String {
    let mut text = String::from("usage: cargo xtask COMMAND [flags]\n\n");
    for command in COMMANDS {
        let mut lines = command.help.lines();
        text += &format!("  {:<12} {}\n", command.name, lines.next().unwrap_or_default());
        for line in lines {
            text += &format!("  {:<12} {line}\n", "");
        }
    }
    text
}

fn main() -> std::process::ExitCode {
    let mut words = std::env::args().skip(1);
    let Some(name) = words.next() else {
        eprint!("{}", usage());
        return 2.into();
    };
    if matches!(name.as_str(), "help" | "--help" | "-h") {
        print!("{}", usage());
        return 0.into();
    }
    let Some(command) = COMMANDS.iter().find(|command| command.name == name) else {
        eprintln!("error: there is no command `{name}`\n\n{}", usage());
        return 2.into();
    };
    let args = Args::new(words.collect());
    if args.wants_help() {
        println!("cargo xtask {name}: {}", command.help);
        return 0.into();
    }
    match (command.run)(args) {
        Ok(()) => 0.into(),
        Err(error) => {
            eprintln!("error: {error}");
            1.into()
        }
    }
}
