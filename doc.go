// Package qrtz is clustered job scheduling for Go services that run on MySQL or MariaDB. Several processes share
// one database and nothing else; every fire of every schedule is run by exactly one of them, on time, and the
// rest does what one that dies leaves undone.
//
// Open a Scheduler on your *sql.DB, register handlers with Handle, declare jobs with their schedules, and Run it
// until its context ends:
//
//	s, err := qrtz.Open(db, qrtz.Config{App: "billing"})
//	qrtz.Handle(s, "invoice", func(ctx context.Context, run *qrtz.Run, in Invoice) error { … })
//	err = s.Declare(ctx, qrtz.Job{Name: "invoice", Schedules: []qrtz.Schedule{qrtz.Cron("0 0 2 * * ?", "Europe/Berlin")}})
//	err = s.Run(ctx)
//
// Config.DSN gives the scheduler connections of its own, on which a claim is one round trip.
// docs/concepts.md says what an app, a node, a job, an execute, a fire and a run are, and what always holds.
package qrtz
