package qrtz

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/rs/zerolog"

	"github.com/qrtz-go/qrtz/app"
	"github.com/qrtz-go/qrtz/internal/text"
	"github.com/qrtz-go/qrtz/node"
	"github.com/qrtz-go/qrtz/schema"
)

// Config says how a Scheduler works. Only App is required; zero values mean the defaults.
type Config struct {
	// App is the application whose schedules this process runs: a row of QRTZ_APP, at most 50 bytes.
	App string

	// NodeID names this process in the cluster, at most 50 bytes: a pod's name, for example. It must be unique
	// among the app's live processes. By default it is the machine's address, and address#2, #3 … for further
	// processes on the machine. A restarted process gets its id back.
	NodeID string

	// DSN is where a running Scheduler opens connections of its own, seven in all: the database that Open was given, as
	// github.com/go-sql-driver/mysql names it. A claim is then one round trip, and nothing that handlers do to the pool of
	// Open can hold up claims or heartbeats. By default the Scheduler takes as many connections out of that pool for as
	// long as it runs, sets their sessions, and closes them in the end. Run returns an error if the pool of Open leads to
	// another database; a pool that does not answer within five seconds, or half of NodeTimeout, is only warned of.
	DSN string

	// Prefix is what the table names begin with. Defaults to QRTZ_.
	Prefix string

	// Workers is how many runs this process carries out at once. A fire is claimed only when a worker is free
	// for it; what this process cannot start is left for others. Defaults to 64.
	Workers int

	// Limits is how many runs of a class this process carries out at once, by class: no more than so many workers are busy with
	// it. What is beyond that is left for other processes, as when no worker is free, and holds up no other class. A class that
	// is not in it may take all workers. See Options.MaxRunning for a limit of the whole cluster.
	Limits map[string]int

	// Reserved is how many workers slow classes leave to the others. A class is slow if its runs last longer than a second on
	// average, or one of those under way has; until the first run of a class has ended, it may take one of these workers.
	// Defaults to an eighth of Workers, at least 1 if there are four. A negative number reserves none. If no class
	// of this process may be quick, none is reserved.
	Reserved int

	// PollInterval is how often the poller reads what is due, and how far ahead it looks. It is also the time
	// between heartbeats. Defaults to 5 seconds.
	PollInterval time.Duration

	// MisfireInterval is how often one node of the app brings switches in line, applies misfire policies and puts the runs of
	// dead nodes on record. Defaults to 15 seconds.
	MisfireInterval time.Duration

	// MisfireAfter is how late a fire may start before it counts as a misfire, which its policy decides.
	// It must exceed PollInterval, or a fire that the next poll would run is treated as missed.
	// Defaults to 60 seconds.
	MisfireAfter time.Duration

	// NodeTimeout is how old a heartbeat may be before its node counts as dead and its runs as LOST. A process
	// that cannot reach the database cancels its runs at nine tenths of it. It must be at least twice
	// PollInterval, so that one missed heartbeat does no harm. Defaults to 22.5 seconds.
	NodeTimeout time.Duration

	// DrainTimeout is how long Run waits for running handlers once its context has ended, before it cancels
	// their contexts. A process then takes up to 5 seconds more for its last results, and to leave.
	// Both together must fit into the time after which its supervisor kills it, as Kubernetes does by default after 30 seconds.
	// Defaults to 20 seconds.
	DrainTimeout time.Duration

	// Hooks are told what happens to runs. Defaults to none.
	Hooks Hooks

	// Around is put around the handler of each run, for tracing, logging, metrics or panics. The first is the outermost. Open calls
	// each of them once; the Handler that it returns is called for every run whose data could be read. That Handler calls next, or
	// returns an error in its place. It sees data that does not decode as next's error, and a panic of the handler as a panic, which
	// it must let pass or turn into an error. The run's timeout and cancellation end its context, too. Defaults to none.
	Around []Middleware

	// UnknownFields is what becomes of fields in JSON data that the type of a handler does not have: UnknownIgnored or
	// UnknownRefused. Defaults to UnknownIgnored; in qrtztest to UnknownRefused.
	UnknownFields UnknownFields

	// Logger or Slog, one of them, takes what the scheduler has to say, and the lines of handlers that ask their context for a logger:
	// zerolog.Ctx and Slog give one with the run's fields. By default the scheduler's warnings and errors, and all lines of handlers,
	// go to stderr as JSON. A zerolog.Nop() takes nothing.
	Logger *zerolog.Logger
	Slog   *slog.Logger

	// Wall is this machine's clock. It only serves to show in QRTZ_NODE how wrong the clock is: qrtz goes by the
	// database's. Defaults to time.Now.
	Wall func() time.Time
}

func (c Config) withDefaults() Config {
	setDefault(&c.Prefix, string(schema.DefaultPrefix))
	setDefault(&c.Workers, 64)
	setDefault(&c.PollInterval, 5*time.Second)
	setDefault(&c.MisfireInterval, 15*time.Second)
	setDefault(&c.MisfireAfter, 60*time.Second)
	setDefault(&c.NodeTimeout, 22500*time.Millisecond)
	setDefault(&c.DrainTimeout, 20*time.Second)
	setDefault(&c.UnknownFields, UnknownIgnored)
	if c.Wall == nil {
		c.Wall = time.Now
	}
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate names every setting that cannot work, with its value and the one it conflicts with.
func (c Config) Validate() error {
	c = c.withDefaults()
	var problems []error
	refuse := func(when bool, format string, args ...any) {
		if when {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	refuse(c.App == "", "Config.App is empty: want the name of your application, for example \"billing\"")
	refuse(len(c.App) > app.MaxName, "Config.App (%q, %d bytes) is too long: at most %d fit", c.App, len(c.App), app.MaxName)
	if err := text.Name(c.App); err != nil {
		problems = append(problems, fmt.Errorf("Config.App %w", err))
	}
	problems = append(problems, node.ValidateID(c.NodeID), schema.Prefix(c.Prefix).Validate())
	if c.DSN != "" {
		_, err := mysql.ParseDSN(c.DSN)
		refuse(err != nil, "Config.DSN: %w", err)
	}
	refuse(c.Workers < 1, "Workers (%d) must be at least 1", c.Workers)
	for _, class := range slices.Sorted(maps.Keys(c.Limits)) {
		refuse(class == "", "Limits[\"\"]: want the name of a class")
		refuse(c.Limits[class] < 1, "Limits[%q] (%d) must be at least 1; without a handler of its own a process runs none of a class", class, c.Limits[class])
	}
	refuse(c.Workers > 0 && c.Reserved >= c.Workers, "Reserved (%d) must be below Workers (%d)", c.Reserved, c.Workers)
	refuse(c.PollInterval < 100*time.Millisecond, "PollInterval (%s) must be at least 100ms", c.PollInterval)
	refuse(c.MisfireInterval < 100*time.Millisecond, "MisfireInterval (%s) must be at least 100ms", c.MisfireInterval)
	refuse(c.MisfireAfter <= c.PollInterval, "MisfireAfter (%s) must exceed PollInterval (%s)", c.MisfireAfter, c.PollInterval)
	refuse(c.NodeTimeout < 2*c.PollInterval, "NodeTimeout (%s) must be at least twice PollInterval (%s)", c.NodeTimeout, c.PollInterval)
	refuse(c.UnknownFields != UnknownIgnored && c.UnknownFields != UnknownRefused, "UnknownFields (%q): want %q or %q", c.UnknownFields, UnknownIgnored, UnknownRefused)
	refuse(c.Logger != nil && c.Slog != nil, "Logger and Slog are both set: want one of them")
	for i, outer := range c.Around {
		refuse(outer == nil, "Around[%d] is nil", i)
	}
	refuse(c.DrainTimeout < 0, "DrainTimeout (%s) must not be negative", c.DrainTimeout)
	return errors.Join(problems...)
}
