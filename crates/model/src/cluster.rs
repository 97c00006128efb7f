//! The model as the checker sees it.

use stateright::{Model, Property};

use crate::actions::{self, Action};
use crate::bounds::{Bounds, DeliveryMode};
use crate::mutations::Mutation;
use crate::properties;
use crate::state::{AttemptNo, AttemptWitness, Call, Event, JobNo, ServerNo, State};

#[derive(Clone, Debug)]
pub struct Cluster {
    pub bounds: Bounds,
    pub mutation: Option<Mutation>,
}

impl Cluster {
    pub fn new(bounds: Bounds) -> Self {
        Self { bounds, mutation: None }
    }

    pub fn with(bounds: Bounds, mutation: Mutation) -> Self {
        Self { bounds, mutation: Some(mutation) }
    }
}

impl Model for Cluster {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::first(&self.bounds)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        actions::possible(self, state, actions);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut step = Step { cluster: self, state: *last };
        step.state.event = None;
        step.take(action);
        step.state.links.as_flattened_mut().iter_mut().for_each(crate::link::Link::renumber);
        (step.state != *last).then_some(step.state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::all(&self.bounds)
    }
}

/// One step of the cluster, under way.
pub(crate) struct Step<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) state: State,
}

impl Step<'_> {
    pub(crate) fn has(&self, mutation: Mutation) -> bool {
        self.cluster.mutation == Some(mutation)
    }

    pub(crate) fn saw(&mut self, event: Event) {
        self.state.event = Some(event);
    }

    pub(crate) fn bounds(&self) -> &Bounds {
        &self.cluster.bounds
    }

    pub(crate) fn delivery(&self, job: JobNo) -> DeliveryMode {
        self.bounds().jobs[usize::from(job)].delivery
    }

    pub(crate) fn jobs(&self) -> std::ops::Range<JobNo> {
        0..u8::try_from(self.bounds().jobs.len()).expect("jobs are few")
    }

    pub(crate) fn seen(&mut self, job: JobNo, attempt: AttemptNo) -> &mut AttemptWitness {
        &mut self.state.witness.attempts[usize::from(job)][attempt.index()]
    }

    pub(crate) fn call(&mut self, server: ServerNo, job: JobNo) -> &mut Call {
        &mut self.state.calls[usize::from(server)][usize::from(job)]
    }

    pub(crate) fn is_early(&self, job: JobNo) -> bool {
        self.state.store.clock < self.bounds().jobs[usize::from(job)].due
    }
}
