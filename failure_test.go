package qrtz_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz"
)

// once declares a job that fires once, now.
func once(t *testing.T, s *qrtz.Scheduler, class string, data any) {
	t.Helper()
	require.NoError(t, s.Declare(t.Context(), qrtz.Job{Name: class, Class: class, Data: data, Schedules: []qrtz.Schedule{qrtz.At(time.Now())}}))
}

func TestFailuresAreOnRecord(t *testing.T) {
	c := newCluster(t)
	s := c.open(quick("n1"), func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "fails", func(context.Context, *qrtz.Run, struct{}) error { return errors.New("no paper") })
		qrtz.Handle(s, "panics", func(context.Context, *qrtz.Run, struct{}) error { panic("jammed") })
		qrtz.Handle(s, "exits", func(context.Context, *qrtz.Run, struct{}) error { runtime.Goexit(); return nil })
		qrtz.Handle(s, "typed", func(context.Context, *qrtz.Run, struct{ Pages int }) error { return nil })
	})
	once(t, s, "fails", nil)
	once(t, s, "panics", nil)
	once(t, s, "exits", nil)
	once(t, s, "typed", map[string]string{"Pages": "many"})
	once(t, s, "tick", nil)
	c.start(s)
	for class, message := range map[string]string{
		"fails": "no paper", "panics": "failure_test.go", "exits": "ended its goroutine", "typed": "JOB_DATA of job",
	} {
		c.eventually(class, 10*time.Second, func() bool {
			return c.count(`SELECT COUNT(*) FROM QRTZ_RUN R JOIN QRTZ_JOB J ON J.ID = R.JOB_ID WHERE J.NAME = ? AND R.STATE = 'FAILED'`, class) == 1
		})
		require.Contains(t, c.text(`SELECT MESSAGE FROM QRTZ_RUN R JOIN QRTZ_JOB J ON J.ID = R.JOB_ID WHERE J.NAME = ?`, class), message)
	}
	c.ran(1, 5*time.Second, all) // the process lives on
}

func TestStoppingWaitsForHandlersAndThenCancelsThem(t *testing.T) {
	c := newCluster(t)
	cfg := quick("n1")
	cfg.DrainTimeout = time.Second
	began, cause := make(chan struct{}, 2), make(chan error, 1)
	s := c.open(cfg, func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "short", func(ctx context.Context, _ *qrtz.Run, _ struct{}) error {
			began <- struct{}{}
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(500 * time.Millisecond):
				return nil
			}
		})
		qrtz.Handle(s, "long", func(ctx context.Context, _ *qrtz.Run, _ struct{}) error {
			began <- struct{}{}
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return context.Cause(ctx)
		})
	})
	once(t, s, "short", nil)
	once(t, s, "long", nil)
	n := c.start(s)
	<-began
	<-began
	n.halt()
	require.ErrorIs(t, <-cause, qrtz.ErrDrained)
	states := `SELECT R.STATE FROM QRTZ_RUN R JOIN QRTZ_JOB J ON J.ID = R.JOB_ID WHERE J.NAME = ?`
	require.Equal(t, "SUCCEEDED", c.text(states, "short"))
	require.Equal(t, "FAILED", c.text(states, "long"))
	require.Equal(t, 1, c.count(`SELECT COUNT(*) FROM QRTZ_NODE WHERE INSTANCE IS NULL AND HEARTBEAT_AT IS NULL`), "it has left")
}

// A node claims no more than it can start; the rest goes to others.
func TestAFullPoolLeavesFiresToOthers(t *testing.T) {
	c := newCluster(t)
	release := make(chan struct{})
	block := func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "block", func(_ context.Context, run *qrtz.Run, _ struct{}) error {
			c.record(run)
			<-release
			return nil
		})
	}
	cfg := quick("n1")
	cfg.Workers = 2
	n1 := c.open(cfg, block)
	job := qrtz.Job{Name: "block", Class: "block"}
	for i := range 5 {
		schedule := qrtz.At(time.Now())
		schedule.Name = string(rune('a' + i))
		job.Schedules = append(job.Schedules, schedule)
	}
	require.NoError(t, n1.Declare(t.Context(), job))
	c.start(n1)
	c.ran(2, 5*time.Second, all)
	c.start(c.open(quick("n2"), block))
	c.ran(5, 5*time.Second, all)
	require.Equal(t, 2, c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE HOST_IP = 'n1'`))
	close(release)
}

// A node that loses its row cancels its runs, cannot write their results, and joins anew.
func TestAFencedNodeGivesUpItsRunsAndJoinsAnew(t *testing.T) {
	c := newCluster(t)
	cause, lost := make(chan error, 1), make(chan struct{})
	s := c.open(quick("n1"), func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "long", func(ctx context.Context, _ *qrtz.Run, _ struct{}) error {
			<-ctx.Done()
			cause <- context.Cause(ctx)
			<-lost
			return nil // which would be a success
		})
	})
	once(t, s, "long", nil)
	c.start(s)
	c.eventually("the run is claimed", 5*time.Second, func() bool { return c.count(`SELECT COUNT(*) FROM QRTZ_RUN`) == 1 })
	old := c.count(`SELECT INSTANCE FROM QRTZ_NODE`)
	c.exec(`UPDATE QRTZ_NODE SET INSTANCE = NULL`) // as the misfire handler does with a node it takes for dead

	require.ErrorIs(t, <-cause, qrtz.ErrFenced)
	c.eventually("it joins anew", 5*time.Second, func() bool {
		return c.count(`SELECT COUNT(*) FROM QRTZ_NODE WHERE INSTANCE IS NOT NULL AND INSTANCE <> ?`, old) == 1
	})
	c.eventually("the run is lost", 5*time.Second, func() bool { return c.text(`SELECT STATE FROM QRTZ_RUN`) == "LOST" })
	close(lost)
	ticking(t, s, 1, 100*time.Millisecond)
	c.ran(3, 5*time.Second, all)
	require.Equal(t, "LOST", c.text(`SELECT R.STATE FROM QRTZ_RUN R JOIN QRTZ_JOB J ON J.ID = R.JOB_ID WHERE J.NAME = 'long'`))
}

func TestConfigNamesWhatIsWrong(t *testing.T) {
	for want, cfg := range map[string]qrtz.Config{
		`Config.App is empty`:                                       {},
		`MisfireAfter (3s) must exceed PollInterval (5s)`:           {App: "a", MisfireAfter: 3 * time.Second},
		`NodeTimeout (6s) must be at least twice PollInterval (5s)`: {App: "a", NodeTimeout: 6 * time.Second},
		`table prefix "QRTZ;"`:                                      {App: "a", Prefix: "QRTZ;"},
		`Workers (-1) must be at least 1`:                           {App: "a", Workers: -1},
	} {
		_, err := qrtz.Open(nil, cfg)
		require.ErrorContains(t, err, want)
	}
}

func TestRunSaysWhenTheTablesAreMissing(t *testing.T) {
	c := newCluster(t)
	s := c.open(quick("n1"))
	c.exec(`DELETE FROM QRTZ_SCHEMA WHERE VERSION = 2`)
	require.ErrorContains(t, s.Run(t.Context()), "qrtz migrate up")
}

// unspeakable is an error that cannot even be looked at.
type unspeakable struct{}

func (unspeakable) Error() string { panic("no words") }
func (unspeakable) As(any) bool   { panic("nor kinds") }

// What a handler fails with may be of any size, and be no use at all.
func TestFailuresOfAnyKindAreBounded(t *testing.T) {
	c := newCluster(t)
	var log bytes.Buffer
	cfg := quick("n1")
	logger := zerolog.New(zerolog.SyncWriter(&log))
	cfg.Logger = &logger
	huge := strings.Repeat("\xff\U0001F600", 4<<20)
	s := c.open(cfg, func(s *qrtz.Scheduler) {
		handle := func(class string, h func(run *qrtz.Run) error) {
			qrtz.Handle(s, class, func(_ context.Context, run *qrtz.Run, _ struct{}) error { return h(run) })
		}
		handle("panics", func(*qrtz.Run) error { panic(huge) })
		handle("panics with much", func(*qrtz.Run) error { panic(make([]int, 10<<20)) })
		handle("returns", func(*qrtz.Run) error { return errors.New(huge) })
		handle("unspeakable", func(*qrtz.Run) error { return unspeakable{} })
		handle("panics unspeakably", func(*qrtz.Run) error { panic(unspeakable{}) })
		handle("speaks", func(run *qrtz.Run) error { run.Message(huge); return nil })
	})
	classes := []string{"panics", "panics with much", "returns", "unspeakable", "panics unspeakably", "speaks"}
	for _, class := range classes {
		once(t, s, class, nil)
	}
	n := c.start(s)
	c.eventually("all ended", 10*time.Second, func() bool {
		return c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE IN ('FAILED', 'SUCCEEDED')`) == len(classes)
	})
	require.Equal(t, 1, c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'SUCCEEDED'`))
	require.Zero(t, c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE LENGTH(MESSAGE) > 8192 OR MESSAGE IS NULL`))
	require.Equal(t, 3, c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE MESSAGE LIKE '%failure_test.go%'`), "the stack is there")
	n.halt()
	require.Less(t, log.Len(), 16<<10)
}
