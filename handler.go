package qrtz

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/qrtz-go/qrtz/execute"
	"github.com/qrtz-go/qrtz/internal/text"
	"github.com/qrtz-go/qrtz/run"
)

// Run is what a handler learns about the run it carries out.
type Run struct {
	ID         int64     // of its row in QRTZ_RUN
	JobID      int64     // of its job
	ScheduleID int64     // of its schedule; 0 for a run that belongs to none
	Job        string    // the name of its job; empty if it has none
	Schedule   string    // the name of its schedule; empty if that has none
	Class      string    // under which the handler is registered
	FireTime   time.Time // when it was due, in the time zone of its schedule: UTC but for Cron with a zone
	StartedAt  time.Time // by the cluster's clock, in UTC; never before FireTime
	Attempt    int       // 1, and more when a fire is tried again
	RecoveryOf int64     // the run, LOST with its node, that this one is a recovery of; 0 if it is none
	Node       string    // the id of this process in the cluster

	// Fence grows with every claim of the same schedule. A system that remembers the highest number it has
	// seen can refuse a handler whose node was taken for dead while it continued.
	Fence int64

	active *active
	data   []byte
}

// Data is the run's data as it is stored, which is JSON if a program wrote it; nil for none. It must not be changed.
func (r *Run) Data() []byte { return r.data }

// Handler carries out a run. [Handle] makes one of a function that wants its data as a type; Config.Around puts a [Middleware] around all of them.
type Handler func(ctx context.Context, run *Run) error

// Middleware puts something around a Handler: it returns one that calls next, before or after something of its own.
type Middleware func(next Handler) Handler

// UnknownFields is what becomes of a field in a run's JSON data that the type of its handler does not have.
type UnknownFields string

// What Config.UnknownFields may be.
const (
	UnknownIgnored UnknownFields = "ignored" // the handler does not see it; the default
	UnknownRefused UnknownFields = "refused" // the run is FAILED without a call of its handler; the default of qrtztest
)

// Handle registers the handler of a class; T is what the job's JSON data is decoded into. Runs of the class go
// to nodes that have registered it, and to no others. A handler that returns an error or panics makes a FAILED run, which is tried
// again if its job has attempts left. One that is given data which does not decode is not called: that run is FAILED for good.
//
// The context ends when the scheduler gives up waiting for the run (Config.DrainTimeout) or loses it (ErrFenced is the cause then).
// It has the values of Scheduler.Run's context, and loggers with the run's fields: [zerolog.Ctx] and [Slog].
//
// Handle panics on a nil handler, on an empty class or one that no job can have, on one that has a handler already, and once Scheduler.Run (or Manual) has begun: the node has told
// the others by then which classes it handles.
func Handle[T any](s *Scheduler, class string, h func(ctx context.Context, run *Run, data T) error) {
	if h == nil {
		panic(fmt.Sprintf("qrtz: the handler of class %q is nil", class))
	}
	s.handlers.add(class, func(ctx context.Context, run *Run) error {
		value, err := decode[T](run, s.cfg.UnknownFields == UnknownRefused)
		if err != nil {
			return NoRetry(err) // the next attempt would be given the same
		}
		return h(ctx, run, value)
	})
}

// decode returns the data of a run as its handler wants it.
func decode[T any](run *Run, refuseUnknown bool) (value T, err error) {
	if len(run.data) == 0 {
		return value, nil
	}
	if shape := reflect.TypeFor[T](); refuseUnknown && shape != reflect.TypeFor[struct{}]() { // a handler of struct{} wants no data
		decoder := json.NewDecoder(bytes.NewReader(run.data))
		decoder.DisallowUnknownFields()
		if err = decoder.Decode(&value); err == nil {
			if _, more := decoder.Token(); !errors.Is(more, io.EOF) {
				err = fmt.Errorf("there is more behind the first value, at byte %d", decoder.InputOffset())
			}
		}
	} else {
		err = json.Unmarshal(run.data, &value)
	}
	if err == nil {
		return value, nil
	}
	return value, fmt.Errorf("JOB_DATA of run %d (its own, its schedule's, or that of job %d, %q) does not fit the handler of class %q: %w%s; want JSON such as %s",
		run.ID, run.JobID, run.Job, run.Class, err, placeOf(err), sample[T]())
}

// placeOf says where in the data an error is, if it tells.
func placeOf(err error) string {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Sprintf(" (at byte %d)", syntax.Offset)
	case errors.As(err, &kind):
		return fmt.Sprintf(" (at byte %d)", kind.Offset)
	}
	return ""
}

// sample is what JSON of a type looks like: that of its zero value.
func sample[T any]() (looks string) {
	var zero T
	looks = fmt.Sprintf("a %T", zero)
	defer func() { _ = recover() }() // of a MarshalJSON
	if raw, err := json.Marshal(zero); err == nil && string(raw) != "null" {
		looks = text.Clip(string(raw), 500)
	}
	return looks
}

// handlers are those of a Scheduler, by class. Once a node has told others of them, there are no more.
type handlers struct {
	mu      sync.RWMutex
	byClass map[string]Handler
	frozen  bool
}

func (h *handlers) add(class string, handler Handler) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case class == "":
		panic("qrtz: Handle needs a class")
	case execute.ValidateClass(class) != nil:
		panic("qrtz: Handle: " + execute.ValidateClass(class).Error())
	case h.byClass[class] != nil:
		panic(fmt.Sprintf("qrtz: class %q has a handler already", class))
	case h.frozen:
		panic(fmt.Sprintf("qrtz: Handle of class %q after Scheduler.Run or Manual has begun: its runs would never come here; register all handlers before", class))
	}
	h.byClass[class] = handler
}

// freeze lets no more handlers in, or does so again.
func (h *handlers) freeze(frozen bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.frozen = frozen
}

// has tells whether a class has a handler.
func (h *handlers) has(class string) bool { return h.of(class) != nil }

// classes lists, sorted, what this process has handlers for.
func (h *handlers) classes() []string {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return slices.Sorted(maps.Keys(h.byClass))
}

// carryOut is the innermost Handler.
func (h *handlers) carryOut(ctx context.Context, run *Run) error {
	if run == nil || run.active == nil { // a middleware's doing
		return NoRetry(errors.New("a Middleware has called next without the Run that it was given"))
	}
	handler := h.of(run.Class)
	if handler == nil {
		return fmt.Errorf("no handler for class %q on this node", run.Class)
	}
	return handler(ctx, run)
}

// of is the handler of a class; nil if there is none.
func (h *handlers) of(class string) Handler {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.byClass[class]
}

// around puts what the configuration has around a handler. The first is the outermost.
func around(middleware []Middleware, h Handler) (Handler, error) {
	for i, outer := range slices.Backward(middleware) {
		if h = outer(h); h == nil {
			return nil, fmt.Errorf("Config.Around[%d] has returned no Handler", i)
		}
	}
	return h, nil
}

// call runs a handler on the data that load brings, and hands over what it returned. A panic becomes an error with its stack; a
// handler that ends its goroutine (runtime.Goexit, as a test's FailNow does) has failed too.
func call(ctx context.Context, h Handler, run *Run, load func() (data []byte, release func(), err error), done func(error)) {
	err := errors.New("the handler ended its goroutine")
	defer func() {
		if p := recover(); p != nil {
			err = errors.New(panicked(p))
		}
		done(err)
	}()
	data, release, failed := load()
	if failed != nil {
		err = failed
		return
	}
	defer release()
	run.data = data
	err = h(ctx, run)
}

func newRun(a *active, node string) *Run {
	r := a.run
	return &Run{
		ID: r.ID, JobID: r.JobID, ScheduleID: r.ExecuteID, Job: r.Job, Schedule: r.Schedule, Class: r.Class, FireTime: r.FireTime, StartedAt: a.startedAt,
		Attempt: r.Attempt, RecoveryOf: r.Recovers, Node: node, Fence: r.Fence, active: a,
	}
}

// Key is the same for all attempts of one fire of a schedule, and for all attempts of one run that was enqueued or asked for; no
// other run in the database has it. It is a short text of ASCII characters, such as "12@1763762400000" for the fire of schedule
// 12 at that time, in milliseconds, or "r4711" for a run whose first attempt has the id 4711. Have the transaction that
// does the work insert it into a column with a unique key: the second attempt to do the same work then fails.
func (r *Run) Key() string { return r.active.run.Key() }

// Progress notes how far the run is, in percent. It is written to QRTZ_RUN within a second, and costs nothing before.
func (r *Run) Progress(percent int) {
	r.active.say(func(a *active) { a.progress = min(max(percent, 0), 100) })
}

// Message notes what the run is doing or has done, in a line. It stays on record if the run succeeds; the error of a
// run that fails takes its place. At most 8 KiB are kept.
func (r *Run) Message(message string) {
	clipped := text.Clip(message, run.MaxMessage)
	r.active.say(func(a *active) { a.message = clipped })
}
