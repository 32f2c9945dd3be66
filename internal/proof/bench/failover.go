package bench

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/qrtz-go/qrtz"
)

// Failover is what happened when one of three nodes was killed, or frozen, under a light load.
type Failover struct {
	What      string  `json:"what"`
	MaxLateMs float64 `json:"max_late_ms"` // of the fires due afterwards
	LateFires int     `json:"late_fires"`  // how many of them were later than a tenth of a second
	UntilS    float64 `json:"until_s"`     // how long after it the last of these was due
	Lost      int     `json:"lost"`        // runs on record as LOST
	LostS     float64 `json:"lost_s"`      // after how long
	RecoveryS float64 `json:"recovered_s"` // after how long a lost run that is to be recovered ran again
}

// Startup is how long a node takes.
type Startup struct {
	FirstFireMs float64 `json:"first_fire_ms"` // from the start of the process
	StopMs      float64 `json:"stop_ms"`       // from SIGTERM to the end of the process
}

const (
	failNodes   = 3
	failRate    = 200 // fires a second
	failHeld    = 30  // long runs that ask for recovery
	failLate    = 100 // ms; a fire later than this is one of those that suffered
	startupRate = 100
)

func (s *site) failover(ctx context.Context, r *Report) error {
	for _, c := range []struct {
		what   string
		signal os.Signal
	}{{"killed", syscall.SIGKILL}, {"frozen", freeze}} {
		one, err := s.failOver(ctx, c.what, c.signal)
		if err != nil {
			return err
		}
		r.Failover = append(r.Failover, one)
		s.say("failover: one of %d nodes %s: %d fires late, the last due %.1f s after it, at most %.0f ms; %d runs LOST after %.1f s, recovered after %.1f s",
			failNodes, one.What, one.LateFires, one.UntilS, one.MaxLateMs, one.Lost, one.LostS, one.RecoveryS)
	}
	return nil
}

func (s *site) failOver(ctx context.Context, what string, signal os.Signal) (Failover, error) {
	d, err := s.database(ctx)
	if err != nil {
		return Failover{}, err
	}
	defer s.drop(context.WithoutCancel(ctx), d)
	first := time.Now().Truncate(time.Second).Add(meetIn)
	f, err := s.startNodes(ctx, d, failNodes, NodeOptions{})
	if err != nil {
		return Failover{}, err
	}
	defer f.kill()
	for _, l := range []load{
		{Class: tick, Executes: failRate, Every: time.Second, First: first, Spread: true, History: qrtz.HistoryAll},
		{Class: hold, Executes: failHeld, Every: time.Second, Once: true, First: first, Spread: true, History: qrtz.HistoryAll, Recovery: true},
	} {
		if err := d.store(ctx, l); err != nil {
			return Failover{}, err
		}
	}
	if !sleep(ctx, time.Until(first.Add(agreeIn+s.steady))) {
		return Failover{}, ctx.Err()
	}
	victim := f.nodes[0]
	victim.Signal(signal)
	struck := time.Now()
	if !sleep(ctx, s.watch) {
		return Failover{}, ctx.Err()
	}
	one, err := d.aftermath(ctx, struck)
	one.What = what
	victim.Signal(thaw) // so that it can be stopped
	return one, err
}

const (
	tickRunsSQL = `
SELECT R.FIRE_TIME, R.STARTED_AT - R.FIRE_TIME AS LATE
  FROM QRTZ_RUN R JOIN QRTZ_JOB J ON J.ID = R.JOB_ID
 WHERE J.JOB_CLASS = ? AND R.FIRE_TIME > ? AND R.STARTED_AT IS NOT NULL`

	lostSQL = `SELECT COUNT(*) AS N, MAX(FINISHED_AT) AS AT FROM QRTZ_RUN WHERE APPLICATION = ? AND STATE = 'LOST'`

	recoveredSQL = `SELECT MIN(COALESCE(STARTED_AT, CLAIMED_AT)) FROM QRTZ_RUN WHERE APPLICATION = ? AND ATTEMPT = 2`
)

// aftermath reads in the history what became of fires and runs since a node was struck.
func (d *database) aftermath(ctx context.Context, struck time.Time) (Failover, error) {
	var one Failover
	var runs []struct {
		Fire int64 `db:"FIRE_TIME"`
		Late int64 `db:"LATE"`
	}
	if err := d.SelectContext(ctx, &runs, tickRunsSQL, tick, struck.UnixMilli()); err != nil {
		return one, fmt.Errorf("read what became of fires: %w", err)
	}
	since := func(ms int64) float64 { return time.UnixMilli(ms).Sub(struck).Seconds() }
	for _, r := range runs {
		one.MaxLateMs = max(one.MaxLateMs, float64(r.Late))
		if r.Late > failLate {
			one.LateFires++
			one.UntilS = max(one.UntilS, since(r.Fire))
		}
	}
	var lost struct {
		N  int           `db:"N"`
		At sql.NullInt64 `db:"AT"`
	}
	var recovered sql.NullInt64
	if err := d.GetContext(ctx, &lost, lostSQL, benchApp); err != nil {
		return one, fmt.Errorf("read what became of runs: %w", err)
	}
	if err := d.GetContext(ctx, &recovered, recoveredSQL, benchApp); err != nil {
		return one, fmt.Errorf("read what became of runs: %w", err)
	}
	if one.Lost = lost.N; lost.At.Valid {
		one.LostS = since(lost.At.Int64)
	}
	if recovered.Valid {
		one.RecoveryS = since(recovered.Int64)
	}
	return one, nil
}

// startup starts and stops a node a few times while fires are due.
func (s *site) startup(ctx context.Context, r *Report) error {
	var starts, stops []time.Duration
	for range s.starts {
		start, stop, err := s.startAndStop(ctx)
		if err != nil {
			return err
		}
		starts, stops = append(starts, start), append(stops, stop)
	}
	r.Startup = &Startup{FirstFireMs: ms(median(starts)), StopMs: ms(median(stops))}
	s.say("startup: first fire %.0f ms after the start of the process; it ends %.0f ms after SIGTERM", r.Startup.FirstFireMs, r.Startup.StopMs)
	return nil
}

func (s *site) startAndStop(ctx context.Context) (start, stop time.Duration, err error) {
	d, err := s.database(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer s.drop(context.WithoutCancel(ctx), d)
	err = d.store(ctx, load{Class: tick, Executes: startupRate, Every: time.Second, First: time.Now(), Spread: true, History: qrtz.HistoryAll})
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	f, err := s.startNodes(ctx, d, 1, NodeOptions{})
	if err != nil {
		return 0, 0, err
	}
	defer f.kill()
	if !sleep(ctx, 2*time.Second) {
		return 0, 0, ctx.Err()
	}
	stopping := time.Now()
	sum, err := f.stop()
	return sum.First.Sub(began), time.Since(stopping), err
}
