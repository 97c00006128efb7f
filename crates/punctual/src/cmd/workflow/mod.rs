//! `punctual workflow …`.

mod diff;
mod graph;
mod watch;
pub(super) mod yaml;

use clap::{Args, Subcommand, ValueEnum};
use punctual_api::{
    DecideRequest, GateDecision, ResumeRequest, RunEventRequest, RunQuery, RunView, SkipNodeRequest, WorkflowQuery,
    WorkflowRunRequest, WorkflowView,
};
use punctual_client::{Client, ClientError};
use punctual_core::RunId;
use serde_json::value::RawValue;

use super::Context;
use crate::exit::{Exit, usage};
use crate::input::{read_file, text_or_file};
use crate::output::{Format, Output};
use crate::view;
use crate::when::whole;
use diff::DiffArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum WorkflowVerb {
    /// Create a workflow, or a new version of it, from a YAML or JSON file
    #[command(aliases = ["create", "put"])]
    Apply {
        /// The workflow's name
        #[arg(value_name = "NAME")]
        name: String,
        /// The definition; - for stdin
        #[arg(value_name = "FILE")]
        file: String,
    },
    /// Start a run
    #[command(alias = "start")]
    Run(RunArgs),
    /// List workflows by name
    #[command(aliases = ["ls"])]
    List(ListArgs),
    /// Show a workflow's definition, or a run with its nodes
    #[command(aliases = ["show"])]
    Get(GetArgs),
    /// Draw a workflow, or a run with the states of its nodes
    Graph(GraphArgs),
    /// Compare two versions of a workflow
    Diff(DiffArgs),
    /// List runs, the latest first
    Runs(RunsArgs),
    /// Cancel a run and its jobs
    Cancel {
        /// The run's id
        #[arg(value_name = "RUN")]
        run: RunId,
    },
    /// Resume a run that failed or was cancelled: what failed begins again, what succeeded stays
    Resume {
        /// The run's id
        #[arg(value_name = "RUN")]
        run: RunId,
        /// A node that failed and is to be passed over; may be repeated
        #[arg(long, value_name = "NODE")]
        skip: Vec<String>,
    },
    /// Start another run of the same version, with the same input or another one
    Rerun {
        /// The run's id
        #[arg(value_name = "RUN")]
        run: RunId,
        /// Another input as JSON, @FILE, or - for stdin
        #[arg(short, long, value_name = "JSON")]
        input: Option<String>,
    },
    /// Approve a gate, or reject it
    Approve {
        /// The run's id
        #[arg(value_name = "RUN")]
        run: RunId,
        /// The gate
        #[arg(value_name = "NODE")]
        node: String,
        /// Reject it: the node fails
        #[arg(long)]
        reject: bool,
    },
    /// Tell a run of an outside event that a gate waits for
    Event {
        /// The run's id
        #[arg(value_name = "RUN")]
        run: RunId,
        /// The name of the event
        #[arg(value_name = "EVENT")]
        event: String,
        /// What it brings, as JSON, @FILE, or - for stdin: the output of the gate
        #[arg(short, long, value_name = "JSON")]
        payload: Option<String>,
    },
    /// Skip a node that has not started
    Skip {
        /// The run's id
        #[arg(value_name = "RUN")]
        run: RunId,
        #[arg(value_name = "NODE")]
        /// The node
        node: String,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    punctual workflow run nightly\n  \
    punctual workflow run nightly --input '{\"day\":\"2026-12-24\"}' --wait")]
pub(crate) struct RunArgs {
    /// The workflow's name
    #[arg(value_name = "NAME")]
    name: String,
    /// The input of the run as JSON, @FILE, or - for stdin
    #[arg(short, long, value_name = "JSON")]
    input: Option<String>,
    /// Another version than the newest
    #[arg(long, value_name = "N", value_parser = whole::<u32, 1, 2_147_483_647>)]
    version: Option<u32>,
    /// Follow the run until it ends; exit with code 3 unless it succeeds
    #[arg(short, long, visible_alias = "watch")]
    wait: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// How many, at most; 1 to 1000
    #[arg(short = 'n', long, value_name = "N", default_value_t = 50, value_parser = whole::<u16, 1, 1000>)]
    limit: u16,
    /// Go on where another list ended
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// The workflow's name, or the id of a run
    #[arg(value_name = "NAME|RUN")]
    what: String,
    /// Another version than the newest
    #[arg(long, value_name = "N", value_parser = whole::<u32, 1, 2_147_483_647>)]
    version: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct GraphArgs {
    /// The workflow's name, or the id of a run
    #[arg(value_name = "NAME|RUN")]
    what: String,
    /// For the terminal, for Graphviz, or for Markdown
    #[arg(long = "as", value_name = "FORM", default_value = "text")]
    form: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    Text,
    Dot,
    Mermaid,
}

#[derive(Debug, Args)]
pub(crate) struct RunsArgs {
    /// Only runs of this workflow
    #[arg(value_name = "NAME")]
    workflow: Option<String>,
    #[command(flatten)]
    list: ListArgs,
}

fn named(error: ClientError) -> anyhow::Error {
    error.into()
}

pub(crate) async fn run(verb: WorkflowVerb, context: &Context) -> anyhow::Result<Exit> {
    let client = context.client()?;
    let out = &context.out;
    match verb {
        WorkflowVerb::Apply { name, file } => apply(&name, &file, &client, out).await?,
        WorkflowVerb::Run(args) => return start(args, &client, out).await,
        WorkflowVerb::List(args) => list(args, &client, out).await?,
        WorkflowVerb::Get(args) => get(&args, &client, out).await?,
        WorkflowVerb::Graph(args) => draw(&args, &client, out).await?,
        WorkflowVerb::Diff(args) => diff::run(&args, &client, out).await?,
        WorkflowVerb::Runs(args) => runs(args, &client, out).await?,
        WorkflowVerb::Cancel { run } => told(&client.cancel_run(run).await.map_err(named)?, out)?,
        WorkflowVerb::Resume { run, skip } => {
            told(&client.resume_run(run, &ResumeRequest { skip }).await.map_err(named)?, out)?;
        }
        WorkflowVerb::Rerun { run, input } => {
            let request = WorkflowRunRequest { input: read_input(input.as_deref())?, version: None };
            told(&client.rerun(run, &request).await.map_err(named)?, out)?;
        }
        WorkflowVerb::Approve { run, node, reject } => {
            let decision = if reject { GateDecision::Reject } else { GateDecision::Approve };
            told(&client.decide_gate(run, &DecideRequest { node, decision }).await.map_err(named)?, out)?;
        }
        WorkflowVerb::Event { run, event, payload } => {
            let request = RunEventRequest { event, payload: read_input(payload.as_deref())? };
            told(&client.send_event(run, &request).await.map_err(named)?, out)?;
        }
        WorkflowVerb::Skip { run, node } => {
            told(&client.skip_node(run, &SkipNodeRequest { node }).await.map_err(named)?, out)?;
        }
    }
    Ok(Exit::Ok)
}

async fn apply(name: &str, file: &str, client: &Client, out: &Output) -> anyhow::Result<()> {
    let text = read_file(file)?;
    let spec = yaml::read(&text).map_err(|error| {
        usage(format!("{file}: {}", error.0), "write the definition as plain YAML or JSON; see docs/workflows.md")
    })?;
    let applied = client.apply_workflow(name, &spec).await.map_err(named)?;
    match out.format {
        Format::Json | Format::Jsonl => out.json(&applied)?,
        Format::Name | Format::Table => out.line(&applied.name)?,
    }
    let what = if applied.is_new { "is stored" } else { "has this definition already" };
    out.hint(&format!("Version {} {what}. Next: punctual workflow run {name} --wait", applied.version));
    Ok(())
}

fn read_input(input: Option<&str>) -> anyhow::Result<Option<Box<RawValue>>> {
    let Some(input) = input else { return Ok(None) };
    let text = text_or_file(input)?;
    let parsed = serde_json::from_str(&text);
    parsed.map(Some).map_err(|error| {
        usage(format!("the input is not JSON: {error}"), "write JSON, such as '{\"day\":\"2026-12-24\"}'")
    })
}

async fn start(args: RunArgs, client: &Client, out: &Output) -> anyhow::Result<Exit> {
    let request = WorkflowRunRequest { input: read_input(args.input.as_deref())?, version: args.version };
    let run = client.start_run(&args.name, &request).await.map_err(named)?;
    if args.wait {
        return watch::run(run, client, out).await;
    }
    told(&run, out)?;
    out.hint(&format!("Next: punctual workflow get {}", run.id));
    Ok(Exit::Ok)
}

/// What became of a run, in one line.
fn told(run: &RunView, out: &Output) -> anyhow::Result<()> {
    match out.format {
        Format::Json | Format::Jsonl => out.json(run),
        Format::Name | Format::Table => out.line(&run.id.to_string()),
    }
}

async fn list(args: ListArgs, client: &Client, out: &Output) -> anyhow::Result<()> {
    let query = WorkflowQuery { limit: Some(args.limit.to_string()), cursor: args.cursor };
    let page = client.workflows(&query).await.map_err(named)?;
    out.rows(&page.workflows, &page)?;
    match &page.next_cursor {
        Some(cursor) => out.hint_more(page.workflows.len(), "workflow", cursor),
        None if page.workflows.is_empty() && out.format == Format::Table => {
            out.hint("No workflows. Create one: punctual workflow apply NAME FILE");
        }
        None => {}
    }
    Ok(())
}

async fn runs(args: RunsArgs, client: &Client, out: &Output) -> anyhow::Result<()> {
    let RunsArgs { workflow, list } = args;
    let query = RunQuery { workflow, limit: Some(list.limit.to_string()), cursor: list.cursor };
    let page = client.runs(&query).await.map_err(named)?;
    out.rows(&page.runs, &page)?;
    match &page.next_cursor {
        Some(cursor) => out.hint_more(page.runs.len(), "run", cursor),
        None if page.runs.is_empty() && out.format == Format::Table => {
            out.hint("No runs. Start one: punctual workflow run NAME");
        }
        None => {}
    }
    Ok(())
}

async fn get(args: &GetArgs, client: &Client, out: &Output) -> anyhow::Result<()> {
    if let Ok(id) = args.what.parse::<RunId>() {
        return view::workflow::run(&client.workflow_run(id).await.map_err(named)?, out);
    }
    let workflow = client.workflow(&args.what, args.version).await.map_err(named)?;
    view::workflow::definition(&workflow, out)
}

async fn draw(args: &GraphArgs, client: &Client, out: &Output) -> anyhow::Result<()> {
    let (title, nodes) = match args.what.parse::<RunId>() {
        Ok(id) => {
            let run = client.workflow_run(id).await.map_err(named)?;
            (format!("{} version {}  {}", run.workflow, run.version, out.state_text(&run.state)), of_run(run))
        }
        Err(_) => {
            let workflow = client.workflow(&args.what, None).await.map_err(named)?;
            (format!("{} version {}", workflow.name, workflow.version), of_definition(&workflow))
        }
    };
    match args.form {
        Form::Text => out.write(&format!("{title}\n{}", graph::text(&nodes, out))),
        Form::Dot => out.write(&graph::dot(&args.what, &nodes)),
        Form::Mermaid => out.write(&graph::mermaid(&nodes)),
    }
}

fn of_run(run: RunView) -> Vec<graph::Drawn> {
    let drawn = |node: punctual_api::NodeView| graph::Drawn {
        notes: {
            let items = node.items.iter().map(|items| format!("{} of {} done", items.succeeded, items.total));
            items.chain(node.note.as_deref().map(view::one_line)).collect()
        },
        name: node.name,
        kind: node.kind,
        needs: node.needs,
        state: Some(node.state),
    };
    run.nodes.into_iter().map(drawn).collect()
}

fn of_definition(workflow: &WorkflowView) -> Vec<graph::Drawn> {
    let spec = &workflow.spec;
    let nodes = spec.nodes.iter().map(|node| {
        let when = view::word(node.when);
        let notes = [
            (when != "all_succeeded").then(|| format!("when {when}")),
            node.condition.as_ref().map(|_| "if".to_owned()),
            node.for_each.as_ref().map(|each| format!("for each of {}", each.from)),
            node.workflow.as_ref().map(|name| format!("runs {name}")),
            node.gate.as_ref().and_then(|gate| gate.note.as_deref().map(view::one_line)),
        ];
        graph::Drawn {
            name: node.name.clone(),
            kind: match (&node.gate, &node.workflow) {
                (Some(_), _) => "gate",
                (None, Some(_)) => "workflow",
                (None, None) => "task",
            }
            .to_owned(),
            needs: node.needs.clone(),
            state: None,
            notes: notes.into_iter().flatten().collect(),
        }
    });
    let handlers = [("on_failure", &spec.on_failure), ("on_success", &spec.on_success), ("on_end", &spec.on_end)];
    let handlers = handlers.into_iter().flat_map(|(kind, handlers)| {
        handlers.iter().map(move |handler| graph::Drawn {
            name: handler.name.clone(),
            kind: kind.to_owned(),
            needs: Vec::new(),
            state: None,
            notes: Vec::new(),
        })
    });
    nodes.chain(handlers).collect()
}
