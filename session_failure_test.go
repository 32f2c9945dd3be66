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
		"fails": "no paper", "panics": "failure_test.go", "exits": "ended its goroutine", "typed": "JOB_DATA of run",
	} {
		c.eventually(class, 10*time.Second, func() bool {
			return c.count(`SELECT COUNT(*) FROM QRTZ_RUN R JOIN QRTZ_JOB J ON J.ID = R.JOB_ID WHERE J.NAME = ? AND R.STATE = 'FAILED'`, class) == 1
		})
		require.Contains(t, c.text(`SELECT MESSAGE FROM QRTZ_RUN R JOIN QRTZ_JOB J ON J.ID = R.JOB_ID WHERE J.NAME = ?`, class), message)
	}
	c.ran(1, 5*time.Second, all) // the process lives on
}

// unspeakable is an error that cannot even be looked at.
type unspeakable struct{}

func (unspeakable) Error() string { panic("no words") }

func (unspeakable) As(any) bool { panic("nor kinds") }

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
