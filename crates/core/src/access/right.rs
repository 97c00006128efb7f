//! What somebody may be allowed to do. A use case names the one right that it needs.

use std::fmt;

macro_rules! rights {
    ($($(#[doc = $doc:literal])+ $variant:ident $name:literal;)*) => {
        /// One thing that somebody may be allowed to do. The names are stable: keys and roles are stored by them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Right { $($(#[doc = $doc])+ $variant),* }

        impl Right {
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Such as `jobs.submit`.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }

            /// What it permits, for people.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),+)),* }
            }
        }
    };
}

rights! {
    /// See jobs, attempts, their events and statistics, and queues.
    ViewJobs "jobs.view";
    /// Submit jobs of tasks that exist.
    SubmitJobs "jobs.submit";
    /// Cancel, delete, retry and run jobs now, and pause, resume and drain queues.
    ControlJobs "jobs.control";
    /// See the inputs of tasks and jobs: payloads, command lines, environments, headers, bodies.
    ViewInputs "inputs.view";
    /// See what attempts returned, and the texts of their errors.
    ViewOutputs "outputs.view";
    /// Read the logs of attempts.
    ViewLogs "logs.view";
    /// See tasks.
    ViewTasks "tasks.view";
    /// Create, change and delete tasks, submit jobs that are defined inline, and set the defaults of queues.
    EditTasks "tasks.edit";
    /// Let a task run commands on workers, outside the sandbox.
    UseCommands "commands.use";
    /// Let a program in the sandbox use the network.
    UseNetwork "network.use";
    /// Let a task call loopback, private and link-local addresses.
    UsePrivateAddresses "private_addresses.use";
    /// Let a task use secrets.
    UseSecrets "secrets.use";
    /// See the names of secrets. Nobody can read their values.
    ViewSecrets "secrets.view";
    /// Create, change and delete secrets.
    EditSecrets "secrets.edit";
    /// See schedules, their runs, calendars, backfills and forecasts.
    ViewSchedules "schedules.view";
    /// Create, change and delete schedules and calendars.
    EditSchedules "schedules.edit";
    /// Pause, resume, skip and run schedules, and start and abort backfills.
    ControlSchedules "schedules.control";
    /// See artifacts, without their content.
    ViewArtifacts "artifacts.view";
    /// Download the content of artifacts.
    ReadArtifacts "artifacts.read";
    /// Upload and delete artifacts.
    EditArtifacts "artifacts.edit";
    /// See notification rules and deliveries.
    ViewNotifications "notifications.view";
    /// Create, change, test and delete notification rules.
    EditNotifications "notifications.edit";
    /// See workers.
    ViewWorkers "workers.view";
    /// Create and revoke join tokens, and revoke workers.
    ManageWorkers "workers.manage";
    /// Take jobs and run them, as a worker.
    ServeJobs "workers.serve";
    /// Create keys of one's own, with rights that one has, and revoke them.
    CreateKeys "keys.create";
    /// See, create and revoke everybody's keys.
    ManageKeys "keys.manage";
    /// See, invite, change and remove people.
    ManagePeople "people.manage";
    /// Read, export and verify the audit log.
    ReadAudit "audit.read";
    /// Create, change and delete namespaces.
    ManageNamespaces "namespaces.manage";
    /// See servers and the state of the cluster.
    ViewCluster "cluster.view";
    /// Change the cluster: its authority, root keys and servers.
    ManageCluster "cluster.manage";
}

impl Right {
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|right| right.name() == name)
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
