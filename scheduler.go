package qrtz

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/execute"
	"github.com/qrtz-go/qrtz/pool"
	"github.com/qrtz-go/qrtz/run"
	"github.com/qrtz-go/qrtz/schema"
)

// Scheduler runs the schedules of one app in this process, together with the app's other nodes.
type Scheduler struct {
	Client // whose session is set while this is busy

	cfg      Config
	logs     logs
	handlers handlers
	carryOut Handler // finds the handler of a run, with Config.Around around it
	pool     *pool.Pool
	busy     atomic.Bool // Run runs, or a Manual drives it
	hints    hints
}

// Open returns a scheduler on the caller's database, which stays the caller's to close. It does not connect yet.
func Open(db *sql.DB, cfg Config) (*Scheduler, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("qrtz: %w", err)
	}
	if db == nil {
		return nil, errors.New("qrtz: the *sql.DB is nil: want a pool on the database that has the tables, from sql.Open")
	}
	cfg = cfg.withDefaults()
	dbx, prefix := sqlx.NewDb(db, "mysql"), schema.Prefix(cfg.Prefix)
	runs := run.NewStore(dbx, prefix, cfg.App)
	s := &Scheduler{
		Client:   Client{db: dbx, executes: execute.NewStore(dbx, prefix, cfg.App, runs), runs: runs, session: &atomic.Pointer[session]{}},
		cfg:      cfg,
		logs:     cfg.logs(),
		handlers: handlers{byClass: map[string]Handler{}},
		pool:     pool.New(cfg.Workers),
	}
	s.scheduler = s
	s.logger = &s.logs.own
	var err error
	if s.carryOut, err = around(cfg.Around, s.handlers.carryOut); err != nil {
		return nil, fmt.Errorf("qrtz: %w", err)
	}
	return s, nil
}

// Migrate creates the scheduler's tables, named with Config.Prefix, or brings them to the version this program needs. An installation
// of the version 1.3 of the Java edition is upgraded in place. It may run on several nodes at once, and again. The account needs the
// privileges to create and alter tables and views.
func (s *Scheduler) Migrate(ctx context.Context) error {
	if _, err := schema.Up(ctx, s.db.DB, schema.Prefix(s.cfg.Prefix)); err != nil {
		return fmt.Errorf("qrtz: %w", err)
	}
	return nil
}

// Resize changes how many runs this process carries out at once. Running jobs continue.
func (s *Scheduler) Resize(workers int) error {
	if workers < 1 {
		return fmt.Errorf("qrtz: resize to %d workers: want at least 1", workers)
	}
	s.pool.Resize(workers)
	return nil
}

// Run joins the cluster and runs schedules until ctx ends. It then claims nothing more, hands back what it had
// claimed and not started, waits for running handlers as long as Config.DrainTimeout, cancels those that are left,
// writes their results and leaves the cluster. Once it has joined, an outage of the database is logged and waited
// out, never returned: a nil error means that ctx has ended.
//
// Handlers get the values of ctx, and not its end: they are given time to finish.
//
// The declared classes need handlers first. A Scheduler runs once at a time.
func (s *Scheduler) Run(ctx context.Context) error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.end()
	if err := s.run(ctx); err != nil && !ended(ctx) { // told to stop before it has begun, it has not failed
		return fmt.Errorf("qrtz: %w", err)
	}
	return nil
}

// begin takes the Scheduler for Run or a Manual, which calls end when it is done.
func (s *Scheduler) begin() error {
	if !s.busy.CompareAndSwap(false, true) {
		return errors.New("qrtz: this Scheduler is running already")
	}
	s.handlers.freeze(true)
	return nil
}

func (s *Scheduler) end() {
	s.handlers.freeze(false)
	s.busy.Store(false)
}

// ended tells whether a context has ended. A connection that is given up at its deadline may say so a little before the context does.
func ended(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}

func (s *Scheduler) run(ctx context.Context) error {
	links, err := s.openLinks(ctx)
	if err != nil {
		return err
	}
	defer links.close()
	s.warnOfLimits()
	session := newSession(ctx, s, links)
	s.session.Store(session)
	defer s.session.Store(nil)
	if err := s.enter(ctx, session); err != nil {
		return err
	}
	session.run(ctx)
	return nil
}

// warnOfLimits logs limits that limit nothing.
func (s *Scheduler) warnOfLimits() {
	for _, class := range slices.Sorted(maps.Keys(s.cfg.Limits)) {
		if !s.handlers.has(class) {
			s.logs.own.Warn().Str("class", class).Msg("Config.Limits names a class without a handler in this process")
		}
	}
}

// enter joins the cluster, if its tables are up to date. After an error, nothing is left of this instance.
func (s *Scheduler) enter(ctx context.Context, session *session) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := schema.Check(ctx, session.links.own.DB, schema.Prefix(s.cfg.Prefix)); err != nil {
		return err
	}
	if err := s.checkSettings(ctx, session.links); err != nil {
		return err
	}
	if err := session.join(ctx); err != nil {
		return err
	}
	if err := session.meet(ctx, s.db); err != nil {
		session.leave(ctx)
		return err
	}
	return nil
}

// checkSettings logs the settings with which a promise does not hold, of the server that the scheduler's own connections lead to.
// The character set that it refuses is that of the caller's.
func (s *Scheduler) checkSettings(ctx context.Context, l *links) error {
	if _, err := schema.SafeNow(ctx, s.db); err != nil {
		return err
	}
	warnings, err := schema.Settings(ctx, l.own)
	for _, w := range warnings {
		s.logs.own.Warn().Str("setting", w.Setting).Str("value", w.Value).Str("want", w.Want).Msg("the server's settings: " + w.Why)
	}
	return err
}
