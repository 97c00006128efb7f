//! Checks the model and prints what was found: `model [--full] [--form NAME] [--mutation NAME]
//! [--within SECONDS]`.

use std::process::ExitCode;
use std::time::Duration;

use punctual_model::check::{Report, check, refute};
use punctual_model::{Bounds, Cluster, Mutation, forms};

struct Args {
    forms: Vec<Bounds>,
    mutation: Option<Mutation>,
    within: Duration,
}

fn main() -> ExitCode {
    let args = match parse(std::env::args().skip(1)) {
        Ok(args) => args,
        Err(problem) => {
            eprintln!("{problem}\nusage: model [--full] [--form NAME] [--mutation NAME] [--within SECONDS]");
            let forms: Vec<_> = forms::SMALL.iter().chain(forms::FULL).map(|form| form.name).collect();
            eprintln!("forms: {}\nmutations: {:?}", forms.join(" "), Mutation::ALL);
            return ExitCode::from(2);
        }
    };
    let mut is_good = true;
    for form in args.forms {
        let report = match args.mutation {
            None => check(Cluster::new(form), args.within),
            Some(mutation) => refute(Cluster::with(form, mutation), mutation.breaks(), args.within),
        };
        print(form.name, &report);
        is_good &= report.is_good();
    }
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Args, String> {
    let mut args = Args { forms: forms::SMALL.to_vec(), mutation: None, within: Duration::from_secs(3600) };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "--full" => args.forms = forms::FULL.to_vec(),
            "--form" => {
                let name = value()?;
                let form = forms::SMALL.iter().chain(forms::FULL).find(|form| form.name == name);
                args.forms = vec![*form.ok_or(format!("there is no form {name}"))?];
            }
            "--mutation" => {
                let name = value()?;
                let mutation = Mutation::ALL.into_iter().find(|mutation| format!("{mutation:?}") == name);
                args.mutation = Some(mutation.ok_or(format!("there is no mutation {name}"))?);
            }
            "--within" => {
                let seconds = value()?.parse().map_err(|_| "seconds are a whole number".to_owned())?;
                args.within = Duration::from_secs(seconds);
            }
            _ => return Err(format!("unknown argument {word}")),
        }
    }
    Ok(args)
}

fn print(form: &str, report: &Report) {
    let Report { states, depth, took, is_cut_short, findings } = report;
    let is_refuted = findings.iter().any(|finding| !finding.is_good() && finding.way.is_some());
    let extent = match (is_refuted, is_cut_short) {
        (true, _) => "up to a counterexample",
        (false, true) => "NOT ALL visited",
        (false, false) => "all visited",
    };
    println!("{form}: {states} states, {extent}, depth {depth}, {:.1} s", took.as_secs_f64());
    for finding in findings {
        let mark = if finding.is_good() { "ok  " } else { "FAIL" };
        let steps = finding.way.as_ref().map_or(String::new(), |way| format!(" ({} steps)", way.len()));
        println!("  {mark} {:?}: {}{steps}", finding.expectation, finding.property);
        if let (false, Some(way)) = (finding.is_good(), &finding.way) {
            way.iter().for_each(|action| println!("         {action:?}"));
        }
    }
}
