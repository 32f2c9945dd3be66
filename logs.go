package qrtz

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// logs are where qrtz and the handlers of one Scheduler log to.
type logs struct {
	own     zerolog.Logger // for what the scheduler has to say
	handler zerolog.Logger // for handlers
	slog    *slog.Logger   // nil: handlers get one that writes to handler
}

// logs is what Config.Logger and Config.Slog ask for.
func (c Config) logs() logs {
	switch {
	case c.Logger != nil:
		return logs{own: *c.Logger, handler: *c.Logger}
	case c.Slog != nil:
		to := zerolog.New(slogWriter{c.Slog.Handler()})
		return logs{own: to, handler: to, slog: c.Slog}
	}
	to := zerolog.New(os.Stderr).With().Timestamp().Logger()
	return logs{own: to.Level(zerolog.WarnLevel), handler: to}
}

// Slog returns a logger with the fields of the run whose handler was given ctx, or a context derived from it: app, node, run (its id),
// job, schedule, class, attempt and fire (its time). It is made of Config.Slog, or else writes to the logger that [zerolog.Ctx]
// returns for ctx. For a context of no run it is slog.Default().
func Slog(ctx context.Context) *slog.Logger {
	if c, ok := ctx.Value(runKey{}).(*runContext); ok {
		return c.slogger() //nolint:contextcheck // it is of this context
	}
	return slog.Default()
}

// runKey is for the runContext that a context comes from.
type runKey struct{}

// zerologKey is the key under which zerolog looks for the logger of a context.
var zerologKey = func() any {
	asked := &asking{Context: context.Background()}
	zerolog.Ctx(asked)
	return asked.key
}()

// asking notes what it is asked for.
type asking struct {
	context.Context
	key any
}

func (a *asking) Value(key any) any {
	a.key = key
	return nil
}

// values are those of the context that Run was given, without its end.
type values struct{ context.Context }

func withoutEnd(ctx context.Context) *values { return &values{context.WithoutCancel(ctx)} }

// runContext is the context of a handler. It makes loggers with the run's fields, for handlers that ask for one.
type runContext struct {
	context.Context // which ends with the run
	values          *values
	run             *Run
	app             string
	logs            *logs

	mu      sync.Mutex
	zerolog *zerolog.Logger
	slog    *slog.Logger
}

func (c *runContext) Value(key any) any {
	switch key {
	case runKey{}:
		return c
	case zerologKey:
		return c.logger()
	}
	if value := c.Context.Value(key); value != nil {
		return value
	}
	return c.values.Value(key)
}

// logger is made of the logger that Run's context carries, or else of the scheduler's.
func (c *runContext) logger() *zerolog.Logger {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.zerolog != nil {
		return c.zerolog
	}
	from := c.logs.handler
	if theirs := zerolog.Ctx(c.values); theirs.GetLevel() != zerolog.Disabled {
		from = *theirs
	}
	r := c.run
	with := from.With().Str("app", c.app).Str("node", r.Node).Int64("run", r.ID)
	if r.Job != "" {
		with = with.Str("job", r.Job)
	}
	if r.Schedule != "" {
		with = with.Str("schedule", r.Schedule)
	}
	logger := with.Str("class", r.Class).Int("attempt", r.Attempt).Time("fire", r.FireTime).Logger()
	c.zerolog = &logger
	return c.zerolog
}

func (c *runContext) slogger() *slog.Logger {
	if c.logs.slog == nil {
		return slog.New(zerolog.NewSlogHandler(*c.logger()))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.slog == nil {
		r := c.run
		with := []any{"app", c.app, "node", r.Node, "run", r.ID}
		if r.Job != "" {
			with = append(with, "job", r.Job)
		}
		if r.Schedule != "" {
			with = append(with, "schedule", r.Schedule)
		}
		c.slog = c.logs.slog.With(append(with, "class", r.Class, "attempt", r.Attempt, "fire", r.FireTime)...)
	}
	return c.slog
}

// slogWriter hands the lines of a zerolog.Logger to a slog.Handler, with their fields. qrtz logs little: what it costs to read a line
// again does not matter.
type slogWriter struct{ to slog.Handler }

func (w slogWriter) Write(line []byte) (int, error) { return w.WriteLevel(zerolog.NoLevel, line) }

// WriteLevel is what zerolog calls for each line.
func (w slogWriter) WriteLevel(level zerolog.Level, line []byte) (int, error) {
	ctx, as := context.Background(), slogLevel(level)
	if !w.to.Enabled(ctx, as) {
		return len(line), nil
	}
	record := slog.NewRecord(time.Now(), as, "", 0)
	if err := addFields(&record, line); err != nil {
		record.Message = string(bytes.TrimSpace(line))
	}
	return len(line), w.to.Handle(ctx, record)
}

// addFields adds the fields of a line of zerolog's to a record, in their order.
func addFields(record *slog.Record, line []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.UseNumber()
	if _, err := decoder.Token(); err != nil { // the brace
		return err
	}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return err
		}
		var value any
		if err := decoder.Decode(&value); err != nil {
			return err
		}
		switch name {
		case zerolog.MessageFieldName:
			record.Message = fmt.Sprint(value)
		case zerolog.LevelFieldName, zerolog.TimestampFieldName: // the record has its own
		default:
			record.AddAttrs(slog.Any(fmt.Sprint(name), plain(value)))
		}
	}
	return nil
}

// plain is a value without json's own types.
func plain(value any) any {
	number, ok := value.(json.Number)
	if !ok {
		return value
	}
	if n, err := number.Int64(); err == nil {
		return n
	}
	f, _ := number.Float64()
	return f
}

func slogLevel(level zerolog.Level) slog.Level {
	switch level {
	case zerolog.TraceLevel:
		return slog.LevelDebug - 4
	case zerolog.DebugLevel:
		return slog.LevelDebug
	case zerolog.WarnLevel:
		return slog.LevelWarn
	case zerolog.ErrorLevel:
		return slog.LevelError
	case zerolog.FatalLevel, zerolog.PanicLevel:
		return slog.LevelError + 4
	}
	return slog.LevelInfo
}
