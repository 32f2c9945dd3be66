package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/qrtz-go/qrtz/internal/proof/bench"
)

type benchOptions struct {
	bench.Options
	only, json, svg, markdown string
}

func newBench() *cobra.Command {
	cmd := command(&cobra.Command{
		Use:   "bench",
		Short: "Measure it beside the bare SQL of what it does",
		Long: `Measure, on a private server that flushes at every commit, how many fires a second one
and several nodes keep up with, beside the bare SQL of a claim; how late fires start; what a
node costs at rest; how long start-up and fail-over take. It uses no other database.

The whole takes about a quarter of an hour. Leave the machine alone meanwhile. What becomes
of it with ten million finished runs, a million schedules and thirty nodes is measured by
--only growth, in as much time again and some gigabytes below the directory of TMPDIR.`,
	}, &benchOptions{})
	cmd.AddCommand(newBenchNode())
	return cmd
}

func (o *benchOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.only, "only", "", "some of "+strings.Join(bench.Parts(), ",")+" (default all but growth)")
	f.BoolVar(&o.Quick, "quick", false, "rougher, in a quarter of the time")
	f.IntVar(&o.Workers, "workers", 2000, "workers of each node under heavy load")
	f.StringVar(&o.json, "json", "", "write the figures to this file")
	f.StringVar(&o.svg, "svg", "", "draw them in this file")
	f.StringVar(&o.markdown, "markdown", "", "write the tables to this file, between its marks if it has them")
}

func (o *benchOptions) validate(args []string) error {
	if err := noArgs(args); err != nil {
		return err
	}
	if o.Workers < 1 {
		return fmt.Errorf("--workers %d: want at least 1", o.Workers)
	}
	if o.only != "" {
		o.Parts = strings.Split(o.only, ",")
	}
	for _, part := range o.Parts {
		if !slices.Contains(bench.Parts(), part) {
			return fmt.Errorf("--only %q: want some of %s", part, strings.Join(bench.Parts(), ","))
		}
	}
	return nil
}

func (o *benchOptions) run(cmd *cobra.Command) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	o.Node, o.Progress = []string{program, "bench", "node"}, cmd.ErrOrStderr()
	r, err := bench.Run(cmd.Context(), o.Options)
	if err != nil {
		return err
	}
	if err := o.write(r); err != nil {
		return err
	}
	return r.Print(cmd.OutOrStdout())
}

// write writes the files that were asked for.
func (o *benchOptions) write(r *bench.Report) error {
	for _, file := range []struct {
		path  string
		write func(io.Writer) error
	}{
		{o.json, func(w io.Writer) error { return printJSON(w, r) }},
		{o.svg, r.SVG},
		{o.markdown, func(w io.Writer) error { return intoPage(o.markdown, w, r.Markdown) }},
	} {
		if file.path == "" {
			continue
		}
		var text bytes.Buffer
		if err := file.write(&text); err != nil {
			return err
		}
		if err := os.WriteFile(file.path, text.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// The tables go between these lines of a page that has them.
const (
	tablesBegin = "<!-- qrtz bench: what follows is generated -->\n"
	tablesEnd   = "<!-- qrtz bench: end -->\n"
)

// intoPage copies the page at path, with what write writes between its marks; without a page or marks, that alone.
func intoPage(path string, w io.Writer, write func(io.Writer) error) error {
	page, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	before, rest, begins := strings.Cut(string(page), tablesBegin)
	_, after, ends := strings.Cut(rest, tablesEnd)
	if !begins || !ends {
		return write(w)
	}
	printf(w, "%s%s\n", before, tablesBegin)
	err = write(w)
	printf(w, "%s%s", tablesEnd, after)
	return err
}

type benchNodeOptions struct {
	bench.NodeOptions
	from, until int64
}

func newBenchNode() *cobra.Command {
	return command(&cobra.Command{Use: "node", Short: "A node of a benchmark, which starts it itself", Hidden: true}, &benchNodeOptions{})
}

func (o *benchNodeOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.ID, "id", "", "the node's id")
	f.IntVar(&o.Workers, "workers", 0, "how many runs at once")
	f.DurationVar(&o.Poll, "poll", 0, "how often to read what is due")
	f.Int64Var(&o.from, "from", 0, "count from here, in milliseconds")
	f.Int64Var(&o.until, "until", 0, "to here")
	f.IntVar(&o.Asked.Rate, "ask", 0, "enqueue so many runs a second")
	f.BoolVar(&o.Asked.InTx, "in-tx", false, "each in a transaction")
	f.BoolVar(&o.Asked.Client, "client", false, "carry out nothing")
}

func (o *benchNodeOptions) validate(args []string) error { return noArgs(args) }

func (o *benchNodeOptions) run(cmd *cobra.Command) error {
	o.DSN, o.From, o.Until = os.Getenv(bench.DSNEnv), time.UnixMilli(o.from), time.UnixMilli(o.until)
	return bench.Node(cmd.Context(), o.NodeOptions, cmd.OutOrStdout())
}
