package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/qrtz-go/qrtz/internal/bench"
)

// benchFlags are the flags of `bench`.
type benchFlags struct {
	bench.Options
	only, json, svg, markdown string
}

func newBench() *cobra.Command {
	f := benchFlags{}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure it beside the bare SQL of what it does",
		Long: `Measure, on a private server that flushes at every commit, how many fires a second one
and several nodes keep up with, beside the bare SQL of a claim; how late fires start; what a
node costs at rest; how long start-up and fail-over take. It uses no other database.

The whole takes about a quarter of an hour. Leave the machine alone meanwhile.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runBench(cmd, f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.only, "only", "", "some of "+strings.Join(bench.Parts(), ",")+" (default all)")
	flags.BoolVar(&f.Quick, "quick", false, "rougher, in a quarter of the time")
	flags.IntVar(&f.Workers, "workers", 2000, "workers of each node under heavy load")
	flags.StringVar(&f.json, "json", "", "write the figures to this file")
	flags.StringVar(&f.svg, "svg", "", "draw them in this file")
	flags.StringVar(&f.markdown, "markdown", "", "write the tables to this file, between its marks if it has them")
	cmd.AddCommand(newBenchNode())
	return cmd
}

func runBench(cmd *cobra.Command, f benchFlags) error {
	if f.Workers < 1 {
		return usagef(cmd, "--workers %d: want at least 1", f.Workers)
	}
	if f.only != "" {
		f.Parts = strings.Split(f.only, ",")
	}
	for _, part := range f.Parts {
		if !slices.Contains(bench.Parts(), part) {
			return usagef(cmd, "--only %q: want some of %s", part, strings.Join(bench.Parts(), ","))
		}
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	f.Node, f.Progress = []string{program, "bench", "node"}, cmd.ErrOrStderr()
	r, err := bench.Run(cmd.Context(), f.Options)
	if err != nil {
		return err
	}
	if err := f.write(r); err != nil {
		return err
	}
	return r.Print(cmd.OutOrStdout())
}

// write writes the files that were asked for.
func (f benchFlags) write(r *bench.Report) error {
	for _, file := range []struct {
		path  string
		write func(io.Writer) error
	}{
		{f.json, func(w io.Writer) error { return printJSON(w, r) }},
		{f.svg, r.SVG},
		{f.markdown, func(w io.Writer) error { return intoPage(f.markdown, w, r.Markdown) }},
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

func newBenchNode() *cobra.Command {
	var o bench.NodeOptions
	var from, until int64
	cmd := &cobra.Command{
		Use:    "node",
		Short:  "A node of a benchmark, which starts it itself",
		Hidden: true,
		Args:   noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.DSN, o.From, o.Until = os.Getenv(bench.DSNEnv), time.UnixMilli(from), time.UnixMilli(until)
			return bench.Node(cmd.Context(), o, cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.ID, "id", "", "the node's id")
	flags.IntVar(&o.Workers, "workers", 0, "how many runs at once")
	flags.DurationVar(&o.Poll, "poll", 0, "how often to read what is due")
	flags.Int64Var(&from, "from", 0, "count from here, in milliseconds")
	flags.Int64Var(&until, "until", 0, "to here")
	return cmd
}
