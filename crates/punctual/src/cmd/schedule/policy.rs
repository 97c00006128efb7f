//! The flags that say what a schedule does when things do not go by plan; and those that take something back.

use clap::{Args, ValueEnum};
use punctual_api::{CatchUpRequest, ScheduleRequest};
use punctual_core::Span;
use punctual_core::schedule::{CatchUpMode, Overlap};
use punctual_core::task::Priority;

use super::when::set;
use crate::task_flags::read_input;
use crate::task_flags::{priority, word};
use crate::when::{parse_span, whole};

#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Policies")]
pub(super) struct PolicyFlags {
    /// When a run has not ended at the next time: allow, skip, queue_one, queue_all or cancel_previous [default: allow]
    #[arg(long, value_name = "POLICY", value_parser = word::<Overlap>)]
    overlap: Option<Overlap>,
    /// Times that were missed: none of them runs, the last one, or all [default: last]
    #[arg(long, value_name = "MODE", value_parser = word::<CatchUpMode>)]
    catch_up: Option<CatchUpMode>,
    /// With --catch-up all: how many missed times run, at most [default: 100]
    #[arg(long, value_name = "N", value_parser = whole::<u32, 1, 4_294_967_295>)]
    catch_up_max: Option<u32>,
    /// No missed time that is older runs [default: 1d with --catch-up all, no limit with --catch-up last]
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    catch_up_window: Option<Span>,
    /// With --catch-up all: how many missed times start in a minute [default: 60/min]
    #[arg(long, value_name = "N/min", value_parser = per_minute)]
    catch_up_rate: Option<u32>,
    /// End after so many runs
    #[arg(long, value_name = "N", value_parser = whole::<u32, 1, 4_294_967_295>)]
    max_runs: Option<u32>,
    /// Pause after so many failures in a row
    #[arg(long, value_name = "N", value_parser = whole::<u16, 1, 1000>)]
    pause_after_failures: Option<u16>,
    /// Mark a run as late that is later than this [default: 1m]
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    late_after: Option<Span>,
    /// A planned time that no server has handled for this long is missed; 1s to 1h [default: until the next one, but
    /// at least 1s and at most the server's missed_after]
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    missed_after: Option<Span>,
    /// The input of each run: JSON, @file, or - for stdin
    #[arg(short, long, value_name = "JSON")]
    input: Option<String>,
    /// From -100 to 100; each point is worth 15 minutes of waiting
    #[arg(long, value_name = "N", value_parser = priority, allow_hyphen_values = true)]
    priority: Option<Priority>,
}

/// Reads `60/min` or `60`.
fn per_minute(text: &str) -> Result<u32, String> {
    let number = text.strip_suffix("/min").unwrap_or(text);
    number.trim().parse().map_err(|_| format!("`{text}` is not a rate, such as 60/min"))
}

/// What was set for another mode does not go with it.
fn of_mode(former: CatchUpRequest, mode: CatchUpMode) -> CatchUpRequest {
    let of_mode = CatchUpRequest { mode: Some(mode), ..CatchUpRequest::default() };
    match mode {
        CatchUpMode::All => CatchUpRequest { mode: Some(mode), ..former },
        CatchUpMode::Last => CatchUpRequest { window: former.window, ..of_mode },
        CatchUpMode::None => of_mode,
    }
}

impl PolicyFlags {
    /// Changes what is given, and nothing else.
    pub(super) fn apply(&self, request: &mut ScheduleRequest) -> anyhow::Result<()> {
        let Self { overlap, catch_up, catch_up_max, catch_up_window, catch_up_rate, .. } = self;
        set(&mut request.overlap, overlap);
        let catches_up = CatchUpRequest {
            mode: *catch_up,
            max: *catch_up_max,
            window: *catch_up_window,
            per_minute: *catch_up_rate,
        };
        if catches_up != CatchUpRequest::default() {
            let former = request.catch_up.get_or_insert_with(CatchUpRequest::default);
            if let Some(mode) = catch_up {
                *former = of_mode(*former, *mode);
            }
            set(&mut former.max, catch_up_max);
            set(&mut former.window, catch_up_window);
            set(&mut former.per_minute, catch_up_rate);
        }
        set(&mut request.max_runs, &self.max_runs);
        set(&mut request.pause_after_failures, &self.pause_after_failures);
        set(&mut request.late_after, &self.late_after);
        set(&mut request.missed_after, &self.missed_after);
        set(&mut request.input, &read_input(self.input.as_deref())?);
        set(&mut request.priority, &self.priority);
        Ok(())
    }
}

/// What an edit can set back to its default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Unset {
    StartAt,
    EndAt,
    Jitter,
    Gap,
    Fold,
    Exclude,
    Include,
    OnClosedDay,
    Overlap,
    CatchUp,
    MaxRuns,
    PauseAfterFailures,
    LateAfter,
    MissedAfter,
    Input,
    Priority,
}

impl Unset {
    pub(super) fn apply(self, request: &mut ScheduleRequest) {
        let calendars = request.calendars.get_or_insert_default();
        match self {
            Self::StartAt => request.start_at = None,
            Self::EndAt => request.end_at = None,
            Self::Jitter => request.jitter = None,
            Self::Gap => request.gap = None,
            Self::Fold => request.fold = None,
            Self::Exclude => calendars.exclude.clear(),
            Self::Include => calendars.include.clear(),
            Self::OnClosedDay => calendars.on_closed_day = None,
            Self::Overlap => request.overlap = None,
            Self::CatchUp => request.catch_up = None,
            Self::MaxRuns => request.max_runs = None,
            Self::PauseAfterFailures => request.pause_after_failures = None,
            Self::LateAfter => request.late_after = None,
            Self::MissedAfter => request.missed_after = None,
            Self::Input => request.input = None,
            Self::Priority => request.priority = None,
        }
        request.calendars.take_if(|calendars| *calendars == Default::default());
    }
}
