// Package admin finds what a person who operates qrtz names: an app, a node, a job. What is listed, and what is done to it, is in
// the packages that own the tables. Not part of qrtz's API.
package admin

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/app"
	"github.com/qrtz-go/qrtz/execute"
	"github.com/qrtz-go/qrtz/node"
	"github.com/qrtz-go/qrtz/run"
	"github.com/qrtz-go/qrtz/schema"
)

// Store reads the tables of all apps.
type Store struct {
	db *sqlx.DB
	on schema.On
}

// New returns a store. The prefix must be valid.
func New(db *sql.DB, prefix schema.Prefix) *Store {
	dbx := sqlx.NewDb(db, "mysql")
	return &Store{dbx, schema.Tables{DB: dbx, Prefix: prefix}.On(dbx)}
}

// Now is the time by the database's clock.
func (s *Store) Now(ctx context.Context) (time.Time, error) { return schema.Now(ctx, s.db) }

// handled is read again for each list.
func (s *Store) handled() *node.Handled { return node.NewHandled(s.on, node.LongSilence) }

// Apps lists all apps.
func (s *Store) Apps(ctx context.Context) ([]app.Record, error) { return app.List(ctx, s.on) }

// CheckApp returns an error that names the apps there are if there is none of a name.
func (s *Store) CheckApp(ctx context.Context, name string) error {
	names, err := app.Names(ctx, s.on)
	if err != nil || slices.Contains(names, name) {
		return err
	}
	return schema.NotFoundError{What: fmt.Sprintf("app %q; the apps are: %s", name, strings.Join(names, ", "))}
}

// Nodes lists the nodes of an app, or of all.
func (s *Store) Nodes(ctx context.Context, app string) ([]node.Record, error) {
	return node.List(ctx, s.on, app)
}

// Node finds a node by its id. If several apps have one of that name, app must say which.
func (s *Store) Node(ctx context.Context, app, id string) (node.Record, error) {
	return node.Find(ctx, s.on, app, id)
}

// Jobs lists jobs.
func (s *Store) Jobs(ctx context.Context, f execute.JobFilter) (schema.Part[execute.JobRecord], error) {
	return execute.ListJobs(ctx, s.on, s.handled(), f)
}

// Job finds a job by its id or its name. If several apps have one of that name, app must say which.
func (s *Store) Job(ctx context.Context, app, nameOrID string) (execute.JobRecord, error) {
	if id, err := strconv.ParseInt(nameOrID, 10, 64); err == nil && id > 0 {
		return execute.FindJob(ctx, s.on, s.handled(), app, id)
	}
	jobs, err := execute.FindJobsNamed(ctx, s.on, s.handled(), app, nameOrID)
	switch {
	case err != nil:
		return execute.JobRecord{}, fmt.Errorf("find job %q: %w", nameOrID, err)
	case len(jobs) == 0 && app == "":
		return execute.JobRecord{}, schema.NotFoundError{What: fmt.Sprintf("job %q", nameOrID)}
	case len(jobs) == 0:
		return execute.JobRecord{}, schema.NotFoundError{What: fmt.Sprintf("job %q in app %q", nameOrID, app)}
	case len(jobs) > 1:
		return execute.JobRecord{}, fmt.Errorf("the apps %q and %q both have a job %q: say which with --app, or give its id", jobs[0].App, jobs[1].App, nameOrID)
	}
	return jobs[0], nil
}

// Executes lists executes.
func (s *Store) Executes(ctx context.Context, f execute.Filter) (schema.Part[execute.Record], error) {
	return execute.List(ctx, s.on, s.handled(), f)
}

// Execute finds an execute.
func (s *Store) Execute(ctx context.Context, id int64) (execute.Record, error) {
	return execute.Find(ctx, s.on, s.handled(), id)
}

// Runs lists runs.
func (s *Store) Runs(ctx context.Context, f run.Filter) (schema.Part[run.Record], error) {
	return run.List(ctx, s.on, s.handled(), f)
}

// Run finds a run.
func (s *Store) Run(ctx context.Context, id int64) (run.Record, error) {
	return run.Find(ctx, s.on, s.handled(), id)
}

// Attempts lists all attempts of what a run is an attempt of.
func (s *Store) Attempts(ctx context.Context, r run.Record) ([]run.Record, error) {
	return run.Attempts(ctx, s.on, s.handled(), r)
}
