package qrtz_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz"
	"github.com/qrtz-go/qrtz/qrtztest"
)

// Data that is large is in memory only while its handler goes, and only so much of it at once.
func TestLargeDataIsReadWhenItsHandlerStarts(t *testing.T) {
	c := newCluster(t)
	cfg := patient("n1")
	cfg.Workers = 16
	const size = 15 << 20
	var going, most, wrong atomic.Int64
	s := c.open(cfg, func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "large", func(_ context.Context, run *qrtz.Run, data string) error {
			if len(data) != size && len(data) != 100<<10 {
				wrong.Add(1)
			}
			if len(data) == size {
				now := going.Add(1)
				for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
				}
				time.Sleep(500 * time.Millisecond)
				going.Add(-1)
			}
			return nil
		})
	})
	job, err := c.exec(`INSERT INTO QRTZ_JOB (APPLICATION, STATE, JOB_CLASS, JOB_DATA) VALUES ('test', 'EXECUTING', 'large', CONCAT('"', REPEAT('x', ?), '"'))`,
		size).LastInsertId()
	require.NoError(t, err)
	for range 12 {
		c.exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID) VALUES ('test', ?)`, job)
	}
	c.exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, JOB_DATA) VALUES ('test', ?, CONCAT('"', REPEAT('x', ?), '"'))`, job, 100<<10)
	c.start(s)
	c.eventually("all have run", 30*time.Second, func() bool { return c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'SUCCEEDED'`) == 13 })
	require.LessOrEqual(t, most.Load(), int64(4), "64 MiB at once")
	require.Zero(t, wrong.Load())
}

// Data of a run without a row is its job's.
func TestLargeDataOfARunWithoutARow(t *testing.T) {
	c := newCluster(t)
	got := make(chan int, 1)
	s := c.open(quick("n1"), func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "large", func(_ context.Context, _ *qrtz.Run, data string) error { got <- len(data); return nil })
	})
	data := ""
	for len(data) < 100<<10 {
		data += "0123456789abcdef"
	}
	require.NoError(t, s.Declare(t.Context(), qrtz.Job{
		Name: "large", Class: "large", Data: data, Options: qrtz.Options{History: qrtz.HistoryNone}, Schedules: []qrtz.Schedule{qrtz.At(time.Now())},
	}))
	c.start(s)
	require.Equal(t, len(data), <-got)
}

// A fire time is in the zone of its schedule, however the run came to its handler: the day that it formats to must not depend
// on the machine, nor change from fire to fire.
func TestFireTimesAreInTheZoneOfTheirSchedule(t *testing.T) {
	c := newCluster(t)
	var w witness
	cfg := patient("n1")
	cfg.Hooks = w.hooks()
	runs := make(chan *qrtz.Run, 100)
	s := c.open(cfg, func(s *qrtz.Scheduler) {
		for _, class := range []string{"zoned", "utc"} {
			qrtz.Handle(s, class, func(_ context.Context, run *qrtz.Run, _ struct{}) error {
				runs <- run
				if run.Attempt == 1 {
					return qrtz.RetryAfter(errors.New("again"), 0)
				}
				return nil
			})
		}
	})
	tokyo := qrtz.Cron("* * * * * ?", "Asia/Tokyo")
	tokyo.Name, tokyo.Count = "tokyo", 3
	rate := qrtz.Every(time.Second)
	rate.Name, rate.Count = "rate", 3
	missed := tokyo
	missed.Name, missed.Start, missed.Count = "missed", time.Now().Add(-24*time.Hour), 0
	missed.End = missed.Start.Add(time.Hour)
	require.NoError(t, s.Declare(t.Context(),
		qrtz.Job{Name: "zoned", Schedules: []qrtz.Schedule{tokyo, missed}, Options: qrtz.Options{Attempts: 2}},
		qrtz.Job{Name: "utc", Schedules: []qrtz.Schedule{rate}, Options: qrtz.Options{Attempts: 2}}))
	c.exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, EXECUTE_ID, FIRE_TIME) SELECT 'test', PID, ID, 1700000000000 FROM QRTZ_EXECUTE WHERE NAME = 'missed'`)
	_, err := s.Enqueue(t.Context(), "zoned", nil)
	require.NoError(t, err)
	c.start(s)
	zones := map[string]string{"tokyo": "Asia/Tokyo", "missed": "Asia/Tokyo", "rate": "UTC", "": "UTC"}
	for range 2 * (3 + 1 + 3 + 1) { // tokyo, what was missed, rate, what was enqueued
		run := arrives(t, runs, 10*time.Second)
		require.Equal(t, zones[run.Schedule], run.FireTime.Location().String(), run.Schedule)
		require.Equal(t, run.Class, run.Job)
		require.Equal(t, time.UTC, run.StartedAt.Location())
	}
	for _, kind := range []string{"claimed", "started", "finished"} {
		c.eventually(kind, 10*time.Second, func() bool { return len(w.of(kind, "zoned")) == 10 })
		for _, e := range w.of(kind, "zoned") {
			require.Equal(t, zones[e.Schedule], e.FireTime.Location().String(), e.Schedule)
		}
	}
}

type order struct {
	Customer string
	Amount   int
}

// inKit gives a job "order" one run after the other, each with its data, and returns how they ended.
func inKit(t *testing.T, cfg qrtz.Config, register func(*qrtz.Scheduler), data ...string) (told []qrtz.Event) {
	t.Helper()
	c := newCluster(t)
	cfg.App = "test"
	kit := qrtztest.New(t, c.db, cfg, register)
	kit.Declare(qrtz.Job{Name: "order", Options: qrtz.Options{Attempts: 3, Backoff: time.Second}})
	for _, d := range data {
		c.exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, JOB_DATA) SELECT 'test', ID, NULLIF(?, '') FROM QRTZ_JOB`, d)
		told = append(told, kit.Advance(time.Hour)...)
	}
	return told
}

// What does not decode now does not decode later.
func TestDataThatDoesNotDecodeIsNotTriedAgain(t *testing.T) {
	for data, want := range map[string]string{
		`{"Amount": "ten"}`:           `cannot unmarshal string into Go struct field order.Amount of type int (at byte 16)`,
		`{"Costumer": "Ada"}`:         `unknown field "Costumer"`,
		`{'Customer': 'Ada'}`:         `invalid character '\'' looking for beginning of object key string (at byte 2)`,
		`{"Amount": 1} {"Amount": 2}`: `there is more behind the first value`,
	} {
		told := inKit(t, qrtz.Config{}, func(s *qrtz.Scheduler) {
			qrtz.Handle(s, "order", func(context.Context, *qrtz.Run, order) error { t.Error("called"); return nil })
		}, data)
		require.Len(t, told, 1, data)
		require.Equal(t, qrtz.Failed, told[0].State)
		require.Zero(t, told[0].RetryAt)
		for _, said := range []string{want, `JOB_DATA of run 1 (its own, its schedule's, or that of job 1, "order") does not fit the handler of class "order"`, `want JSON such as {"Customer":"","Amount":0}`} {
			require.Contains(t, told[0].Message, said)
		}
	}
}

func TestFieldsThatAHandlerDoesNotKnow(t *testing.T) {
	const data = `{"Customer": "Ada", "Discount": 5}`
	var got []order
	known := func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "order", func(_ context.Context, _ *qrtz.Run, o order) error { got = append(got, o); return nil })
	}
	require.Equal(t, qrtz.Succeeded, inKit(t, qrtz.Config{UnknownFields: qrtz.UnknownIgnored}, known, data)[0].State)
	require.Equal(t, []order{{Customer: "Ada"}}, got)
	require.Equal(t, qrtz.Failed, inKit(t, qrtz.Config{UnknownFields: qrtz.UnknownRefused}, known, data)[0].State)
	wantsNone := func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "order", func(context.Context, *qrtz.Run, struct{}) error { return nil })
	}
	require.Equal(t, qrtz.Succeeded, inKit(t, qrtz.Config{UnknownFields: qrtz.UnknownRefused}, wantsNone, data)[0].State, "a handler of struct{} wants no data")

	c := newCluster(t)
	s := c.open(patient("n1"), known)
	require.NoError(t, s.Declare(t.Context(), qrtz.Job{Name: "order"}))
	_, err := s.Enqueue(t.Context(), "order", map[string]any{"Customer": "Ada", "Discount": 5})
	require.NoError(t, err)
	c.start(s)
	c.eventually("ignored by default", 10*time.Second, func() bool { return c.count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'SUCCEEDED'`) == 1 })
}

// A handler that is registered too late would never be called: the node has told the others its classes.
func TestHandleAfterTheStartPanics(t *testing.T) {
	c := newCluster(t)
	s := c.open(patient("n1"))
	late := func() {
		qrtz.Handle(s, "late", func(context.Context, *qrtz.Run, struct{}) error { return nil })
	}
	ticking(t, s, 1, 100*time.Millisecond)
	n := c.start(s)
	c.ran(1, 10*time.Second, all)
	const why = `qrtz: Handle of class "late" after Scheduler.Run or Manual has begun: its runs would never come here; register all handlers before`
	require.PanicsWithValue(t, why, late)
	n.halt()
	m, err := s.Manual(t.Context(), "")
	require.NoError(t, err)
	require.PanicsWithValue(t, why, late)
	m.Leave(t.Context())
	require.NotPanics(t, late, "it runs nowhere")
}

func TestHandlersThatCouldNeverRunPanic(t *testing.T) {
	s := newCluster(t).open(patient("n1"))
	handler := func(context.Context, *qrtz.Run, struct{}) error { return nil }
	require.PanicsWithValue(t, `qrtz: the handler of class "nil" is nil`, func() { qrtz.Handle[struct{}](s, "nil", nil) })
	require.PanicsWithValue(t, `qrtz: Handle: class "b " begins or ends with a blank`, func() { qrtz.Handle(s, "b ", handler) })
	require.Panics(t, func() { qrtz.Handle(s, strings.Repeat("x", 128), handler) })
	require.NotPanics(t, func() { qrtz.Handle(s, strings.Repeat("x", 127), handler) })
}

// What a middleware does wrong fails its runs, and nothing else.
func TestAMiddlewareThatLosesTheRun(t *testing.T) {
	c := newCluster(t)
	cfg := quick("n1")
	cfg.Around = []qrtz.Middleware{func(next qrtz.Handler) qrtz.Handler {
		return func(ctx context.Context, _ *qrtz.Run) error { return next(ctx, nil) }
	}}
	n := c.start(c.open(cfg))
	require.NoError(t, n.Declare(t.Context(), qrtz.Job{Name: "tick"}))
	id, err := n.Enqueue(t.Context(), "tick", nil)
	require.NoError(t, err)
	last, err := n.Wait(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, qrtz.Failed, last.State)
	require.Equal(t, "a Middleware has called next without the Run that it was given", last.Message)
	n.halt()
}

type traceKey struct{}

// Handlers have the values of the context that Run was given, and outlive it.
func TestHandlersHaveTheValuesOfRunsContext(t *testing.T) {
	c := newCluster(t)
	begun, release, seen := make(chan any, 1), make(chan struct{}), make(chan error, 1)
	s := c.open(patient("n1"), func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "long", func(ctx context.Context, _ *qrtz.Run, _ struct{}) error {
			begun <- ctx.Value(traceKey{})
			<-release
			seen <- ctx.Err()
			return nil
		})
	})
	require.NoError(t, s.Declare(t.Context(), qrtz.Job{Name: "long"}))
	_, err := s.Enqueue(t.Context(), "long", nil)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.WithValue(context.Background(), traceKey{}, "of Run"))
	defer stop()
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	require.Equal(t, "of Run", arrives(t, begun, 10*time.Second))
	stop()
	time.Sleep(100 * time.Millisecond)
	close(release)
	require.NoError(t, arrives(t, seen, 10*time.Second), "it is given time to finish")
	require.NoError(t, arrives(t, done, 10*time.Second))

	m, err := s.Manual(t.Context(), "")
	require.NoError(t, err)
	defer m.Leave(t.Context())
	for _, value := range []string{"first", "second"} {
		_, err = s.Enqueue(t.Context(), "long", nil)
		require.NoError(t, err)
		_, _, err = m.RunDue(context.WithValue(t.Context(), traceKey{}, value))
		require.NoError(t, err)
		require.Equal(t, value, <-begun)
		require.NoError(t, <-seen)
	}
}

// What is around a handler sees its run, its data and how it ended, the first from the outside.
func TestAroundAHandler(t *testing.T) {
	var said []string
	note := func(name string) qrtz.Middleware {
		return func(next qrtz.Handler) qrtz.Handler {
			return func(ctx context.Context, run *qrtz.Run) (err error) {
				said = append(said, fmt.Sprintf("%s: %s %s", name, run.Class, run.Data()))
				defer func() {
					p := recover()
					said = append(said, fmt.Sprintf("%s: %v %v", name, err, p))
					if p != nil {
						panic(p)
					}
				}()
				return next(context.WithValue(ctx, traceKey{}, name), run)
			}
		}
	}
	refuses := func(next qrtz.Handler) qrtz.Handler {
		return func(ctx context.Context, run *qrtz.Run) error {
			if string(run.Data()) == `{"Amount":-1}` {
				return qrtz.NoRetry(errors.New("not today"))
			}
			return next(ctx, run)
		}
	}
	cfg := qrtz.Config{Around: []qrtz.Middleware{note("outer"), note("inner"), refuses}}
	register := func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "order", func(ctx context.Context, _ *qrtz.Run, o order) error {
			said = append(said, fmt.Sprintf("handler: %d, in %v", o.Amount, ctx.Value(traceKey{})))
			if o.Amount == 13 {
				panic("thirteen")
			}
			return nil
		})
	}
	told := inKit(t, cfg, register, `{"Amount":1}`, `{"Amount":-1}`, `{"Amount":"x"}`)
	require.Len(t, told, 3)
	require.Equal(t, []string{
		`outer: order {"Amount":1}`, `inner: order {"Amount":1}`, `handler: 1, in inner`, `inner: <nil> <nil>`, `outer: <nil> <nil>`,
		`outer: order {"Amount":-1}`, `inner: order {"Amount":-1}`, `inner: not today <nil>`, `outer: not today <nil>`,
		`outer: order {"Amount":"x"}`, `inner: order {"Amount":"x"}`,
	}, said[:11])
	require.Len(t, said, 13)
	require.Contains(t, said[12], `outer: JOB_DATA of run 3`)
	require.Equal(t, []any{qrtz.Failed, "not today"}, []any{told[1].State, told[1].Message})

	said = nil
	told = inKit(t, cfg, register, `{"Amount":13}`)
	require.Len(t, told, 3, "a panic is tried again")
	require.Equal(t, []string{`inner: <nil> thirteen`, `outer: <nil> thirteen`}, said[3:5])
	require.Contains(t, told[0].Message, "panic: thirteen")
	require.Contains(t, told[0].Message, "TestAroundAHandler.func", "the stack is that of the handler")
}

func TestAroundThatReturnsNoHandler(t *testing.T) {
	none := func(qrtz.Handler) qrtz.Handler { return nil }
	db, err := sql.Open("mysql", "user@unix(/nowhere)/nothing")
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	_, err = qrtz.Open(db, qrtz.Config{App: "a", Around: []qrtz.Middleware{none}})
	require.EqualError(t, err, "qrtz: Config.Around[0] has returned no Handler")
}

// A handler's context has loggers with the fields of the run, of zerolog and of slog, whichever the program uses.
func TestHandlersLogWithTheFieldsOfTheirRun(t *testing.T) {
	logTwice := func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "order", func(ctx context.Context, _ *qrtz.Run, _ order) error {
			inner, cancel := context.WithCancel(ctx)
			defer cancel()
			zerolog.Ctx(inner).Info().Str("by", "zerolog").Msg("packed")
			qrtz.Slog(inner).Info("packed", "by", "slog")
			return nil
		})
	}
	for name, configure := range map[string]func(*qrtz.Config, *bytes.Buffer){
		"zerolog": func(cfg *qrtz.Config, b *bytes.Buffer) { log := zerolog.New(b); cfg.Logger = &log },
		"slog":    func(cfg *qrtz.Config, b *bytes.Buffer) { cfg.Slog = slog.New(slog.NewJSONHandler(b, nil)) },
	} {
		t.Run(name, func(t *testing.T) {
			var logged bytes.Buffer
			cfg := qrtz.Config{NodeID: "n1"}
			configure(&cfg, &logged)
			c := newCluster(t)
			cfg.App = "test"
			kit := qrtztest.New(t, c.db, cfg, logTwice)
			tokyo := qrtz.Cron("0 0 9 * * ?", "Asia/Tokyo")
			tokyo.Name = "morning"
			kit.Declare(qrtz.Job{Name: "pack", Class: "order", Schedules: []qrtz.Schedule{tokyo}})
			kit.Advance(0)
			id := c.count(`SELECT MAX(ID) FROM QRTZ_RUN`)
			var lines []map[string]any
			for line := range strings.Lines(logged.String()) {
				var fields map[string]any
				require.NoError(t, json.Unmarshal([]byte(line), &fields))
				if fields["message"] == "packed" || fields["msg"] == "packed" {
					lines = append(lines, fields)
				}
			}
			require.Len(t, lines, 2)
			for i, by := range []string{"zerolog", "slog"} {
				for field, want := range map[string]any{
					"app": "test", "node": "n1-1", "run": float64(id), "job": "pack", "schedule": "morning", "class": "order", "attempt": float64(1),
					"fire": "2030-01-01T09:00:00+09:00", "by": by,
				} {
					require.Equal(t, want, lines[i][field], "%s by %s", field, by)
				}
			}
			require.Contains(t, logged.String(), "joined", "its own lines go there, too")
		})
	}
}

// A logger that the context of Run carries is the program's choice.
func TestHandlersLogToTheLoggerOfRunsContext(t *testing.T) {
	c := newCluster(t)
	var logged bytes.Buffer
	s := c.open(patient("n1"), func(s *qrtz.Scheduler) {
		qrtz.Handle(s, "order", func(ctx context.Context, _ *qrtz.Run, _ order) error {
			zerolog.Ctx(ctx).Info().Msg("packed")
			return nil
		})
	})
	require.NoError(t, s.Declare(t.Context(), qrtz.Job{Name: "order", Schedules: []qrtz.Schedule{qrtz.At(time.Now().Add(-time.Second))}}))
	ctx := zerolog.New(&logged).With().Str("release", "7").Logger().WithContext(t.Context())
	m, err := s.Manual(ctx, "")
	require.NoError(t, err)
	defer m.Leave(ctx)
	_, _, err = m.RunDue(ctx)
	require.NoError(t, err)
	require.Contains(t, logged.String(), `"release":"7","app":"test"`)
	require.Contains(t, logged.String(), `"job":"order"`)
}

func TestSlogOfAContextOfNoRun(t *testing.T) {
	require.Same(t, slog.Default(), qrtz.Slog(t.Context()))
}
