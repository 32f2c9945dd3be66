package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/qrtz-go/qrtz/execute"
	"github.com/qrtz-go/qrtz/run"
	"github.com/qrtz-go/qrtz/schema"
)

// listFlags are the flags of a list that can be long.
type listFlags struct {
	app, state string
	states     []string // those there are
	limit      int
	after      string
	asJSON     bool

	from schema.Cursor
}

func (l *listFlags) add(f *pflag.FlagSet, what string, limit int) {
	f.StringVar(&l.app, "app", "", "only "+what+" of this app")
	f.StringVar(&l.state, "state", "", "only those in this state: "+strings.Join(l.states, ", "))
	f.IntVar(&l.limit, "limit", limit, "how many at most")
	f.StringVar(&l.after, "after", "", "continue behind this one, which the list before has named")
	jsonFlag(f, &l.asJSON)
}

func (l *listFlags) validate() (err error) {
	if l.limit < 1 || l.limit > 1_000_000 {
		return fmt.Errorf("--limit %d: want 1 to 1000000", l.limit)
	}
	if l.from, err = schema.ParseCursor(l.after); err != nil {
		return fmt.Errorf("--after %q: %w", l.after, err)
	}
	return oneOf("--state", &l.state, l.states)
}

// refusal makes an error of usage of one that says that --after is of another list.
func (l *listFlags) refusal(cmd *cobra.Command, err error) error {
	if errors.Is(err, schema.ErrCursor) {
		return usageError{cmd.CommandPath(), fmt.Errorf("--after %q: %w", l.after, err)}
	}
	return err
}

// The states that there are, as texts.
var (
	scheduleStates = texts(execute.States)
	runStates      = texts(run.States)
)

func texts[S ~string](all []S) []string {
	out := make([]string, len(all))
	for i, one := range all {
		out[i] = string(one)
	}
	return out
}

func jsonFlag(f *pflag.FlagSet, asJSON *bool) { f.BoolVar(asJSON, "json", false, "as JSON") }

// oneOf makes the value of a flag upper case, and refuses one that is none of some. Empty is no value.
func oneOf(flag string, value *string, of []string) error {
	if *value == "" {
		return nil
	}
	for _, one := range of {
		if strings.EqualFold(one, *value) {
			*value = one
			return nil
		}
	}
	return fmt.Errorf("%s %q: want one of %s", flag, *value, strings.Join(of, ", "))
}

// noArgs refuses arguments.
func noArgs(args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("unexpected argument %q", args[0])
	}
	return nil
}

// oneArg takes the one argument that there must be.
func oneArg(args []string, what string) (string, error) {
	switch {
	case len(args) == 0:
		return "", fmt.Errorf("want %s", what)
	case len(args) > 1:
		return "", fmt.Errorf("unexpected argument %q: want only %s", args[1], what)
	}
	return args[0], nil
}

// idArg takes the one argument that there must be, a positive number.
func idArg(args []string, what string) (int64, error) {
	text, err := oneArg(args, what)
	if err != nil {
		return 0, err
	}
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id < 1 {
		return 0, fmt.Errorf("%q: want %s, a number", text, what)
	}
	return id, nil
}

// confirmFlags is --yes, for what cannot be undone.
type confirmFlags struct{ yes bool }

func (c *confirmFlags) add(f *pflag.FlagSet) { f.BoolVar(&c.yes, "yes", false, "do not ask") }

// validate refuses a command that cannot ask and has not been told not to.
func (c *confirmFlags) validate() error {
	if c.yes || isatty.IsTerminal(os.Stdin.Fd()) {
		return nil
	}
	return errors.New("it cannot ask whether to continue, because stdin is not a terminal: give --yes")
}

var errDeclined = errors.New("nothing done")

// ask asks, unless the answer was given with --yes.
func (c *confirmFlags) ask(cmd *cobra.Command, format string, args ...any) error {
	if c.yes {
		return nil
	}
	printf(cmd.ErrOrStderr(), "%s [y/N] ", fmt.Sprintf(format, args...))
	answer, _ := bufio.NewReader(cmd.InOrStdin()).ReadString('\n') // an end of input is a no
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errDeclined
}

// age is a duration as people keep things: 30d, 2w, 1d12h, and all that time.ParseDuration takes. It is a pflag.Value.
type age time.Duration

const day = 24 * time.Hour

var dayParts = regexp.MustCompile(`^(?:(\d{1,5})w)?(?:(\d{1,6})d)?(.*)$`)

// Set reads the text of a flag.
func (a *age) Set(text string) error {
	parts := dayParts.FindStringSubmatch(strings.TrimSpace(text))
	if parts == nil || text == "" {
		return fmt.Errorf("want for example 30d, 2w or 12h")
	}
	var sum time.Duration
	for i, unit := range []time.Duration{7 * day, day} {
		n, _ := strconv.Atoi(parts[i+1]) // digits, or nothing
		sum += time.Duration(n) * unit
	}
	if rest := parts[3]; rest != "" {
		d, err := time.ParseDuration(rest)
		if err != nil || d < 0 {
			return fmt.Errorf("want for example 30d, 2w or 12h")
		}
		sum += d
	}
	if sum < 0 || sum > 100*365*day {
		return fmt.Errorf("want at most a hundred years")
	}
	*a = age(sum)
	return nil
}

// String is the text that Set reads.
func (a *age) String() string {
	d := time.Duration(*a)
	if d >= day && d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	return d.String()
}

// Type names the flag's argument.
func (a *age) Type() string { return "duration" }
