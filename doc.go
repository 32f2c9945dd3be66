// Package qrtz is clustered job scheduling for Go services that run on MySQL or MariaDB. Several processes share
// one database and nothing else; whenever a job is due, one of them starts it, on time, and never two; the
// rest does what one that dies leaves undone.
//
// # A program
//
// [Open] a [Scheduler] on your *sql.DB, have it create its tables, register a handler for each class with [Handle], declare each
// [Job] with its schedules, and run it until its context ends:
//
//	s, err := qrtz.Open(db, qrtz.Config{App: "billing", DSN: dsn})
//	err = s.Migrate(ctx)
//	qrtz.Handle(s, "invoice", func(ctx context.Context, run *qrtz.Run, in Invoice) error { … })
//	err = s.Declare(ctx, qrtz.Job{Name: "invoice", Schedules: []qrtz.Schedule{qrtz.Cron("0 0 2 * * ?", "Europe/Berlin")}})
//	err = s.Run(ctx)
//
// # The types
//
//   - [Scheduler] is a process that runs what is due; [Config] says how. Only Config.App is required.
//   - [Job] is what to run, [Schedule] is when ([Cron], [Every], [At]), and [Options] is what a job asks of its runs: further attempts,
//     recovery, one run at a time, a timeout, how long they stay on record. [Forever], [NoBackoff] and [Unlimited] say what zero,
//     the default, cannot. What an operator has changed of a declared job stays, until the program declares something new.
//   - [Run] is what a handler learns of the run it carries out, and what it can say of it. [NoRetry] and [RetryAfter] wrap its error.
//     [ErrTimedOut], [ErrCancelled], [ErrDrained] and [ErrFenced] are causes with which its context ends ([context.Cause]).
//   - [TypedJob] is a job whose data has a type, so that the compiler checks what enqueues it and what handles it.
//   - [Client] is what a Scheduler does with what is stored, whether it runs or not: declare, retire, schedule, enqueue, pause, resume,
//     delete, cancel, retry, switch, wait. [Scheduler.In] does it in a transaction of yours.
//   - [EnqueueOption] is what one run has of its own: [StartAt], [WithKey], [Once], [WithAttempts], [WithTimeout], [WithPriority].
//     [ScheduleOption] is the same for a schedule: [Named], [Starting], [Ending], [Times], [OnMisfire], [CatchingUp], [WithData].
//   - [AppInfo], [NodeInfo], [JobInfo], [ScheduleInfo] and [RunInfo] are what a Client reads. [JobFilter], [ScheduleFilter] and [RunFilter]
//     say what of it, and a [Page] is a part of it.
//   - [Middleware] goes around all handlers, for tracing, logging and panics. [Slog] and zerolog.Ctx give a handler a logger with the
//     fields of its run.
//   - [Hooks] are told each [Event]: runs that start, fail, are lost, cannot run.
//   - [Manual] is a Scheduler that does one step after the other. Package qrtztest drives it, with a clock of the test's own.
//
// # Where to read on
//
// docs/embedding.md says what a program can ask for, docs/runs.md what happens at most once, at least once and exactly once, and
// docs/concepts.md what an app, a node, a job, an execute, a fire and a run are, and what always holds.
package qrtz
