package main

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"

	"github.com/qrtz-go/qrtz/internal/admin"
	"github.com/qrtz-go/qrtz/node"
)

func newNodeList(g *global) *cobra.Command {
	var l listing
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the nodes",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return g.onTables(cmd, func(ctx context.Context, _ *database, s *admin.Store) error {
				nodes, err := s.Nodes(ctx, l.app)
				if err != nil {
					return err
				}
				return printList(cmd.OutOrStdout(), l.asJSON, nodes, "APP NODE HOST STATE JOINED HEARTBEAT RUNNING SKEW_MS PROCESS VERSION", func(n admin.Node) []any {
					return []any{n.App, n.ID, n.HostName, nodeState(n), n.Joined, heartbeat(n), n.Running, n.ClockSkew, n.Process, n.Version}
				})
			})
		},
	}
	l.flags(cmd, "nodes")
	return cmd
}

func nodeState(n admin.Node) string {
	if n.State == "N" && n.StoppedByApp {
		return "off (app)"
	}
	return onOff(n.State)
}

func heartbeat(n admin.Node) string {
	if n.HeartbeatAge == nil {
		return ""
	}
	return shortDuration(time.Duration(*n.HeartbeatAge)*time.Millisecond) + " ago"
}

func newNodeStart(g *global) *cobra.Command {
	var app string
	cmd := &cobra.Command{
		Use:   "start ID",
		Short: "Switch a node on",
		Args:  oneArg("the id of a node"),
		RunE:  func(cmd *cobra.Command, args []string) error { return switchNode(cmd, g, app, args[0], true, false) },
	}
	cmd.Flags().StringVar(&app, "app", "", "the node's app, if several have a node of that id")
	return cmd
}

func newNodeStop(g *global) *cobra.Command {
	var app string
	cmd := &cobra.Command{
		Use:   "stop ID",
		Short: "Switch a node off: it starts nothing any more, what runs goes on",
		Long:  "Switch a node off: it starts nothing any more, what runs goes on. Its process stays, and\nstays off when it is started anew, until `qrtz node start`.",
		Args:  oneArg("the id of a node"),
		RunE:  func(cmd *cobra.Command, args []string) error { return switchNode(cmd, g, app, args[0], false, false) },
	}
	cmd.Flags().StringVar(&app, "app", "", "the node's app, if several have a node of that id")
	return cmd
}

func newNodeDrain(g *global) *cobra.Command {
	var app string
	var wait bool
	var within time.Duration
	cmd := &cobra.Command{
		Use:   "drain ID",
		Short: "Switch a node off and say what it still runs; with --wait until that has ended",
		Long:  "Switch a node off and say what it still runs; with --wait until that has ended.\nRuns of jobs with history NONE that write no row are not seen.",
		Args:  oneArg("the id of a node"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if within > 0 {
				ctx, cancel := context.WithTimeoutCause(cmd.Context(), within, errStillRunning)
				defer cancel()
				cmd.SetContext(ctx)
			}
			return switchNode(cmd, g, app, args[0], false, wait)
		},
	}
	cmd.Flags().StringVar(&app, "app", "", "the node's app, if several have a node of that id")
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until it runs nothing any more")
	cmd.Flags().DurationVar(&within, "timeout", 0, "with --wait: for at most this long (default without end)")
	return cmd
}

func switchNode(cmd *cobra.Command, g *global, app, id string, on, wait bool) error {
	return g.onTables(cmd, func(ctx context.Context, d *database, s *admin.Store) error {
		n, err := s.Node(ctx, app, id)
		if err != nil {
			return err
		}
		var was bool
		err = d.change(ctx, func(db *sqlx.DB, tx *sqlx.Tx, _ time.Time) (err error) {
			was, err = node.NewStore(db, d.prefix, n.App).Switch(ctx, tx, n.ID, on)
			return err
		})
		if err != nil {
			return err
		}
		out := cmd.OutOrStdout()
		printf(out, "node %s of app %s is %s\n", cell(n.ID), cell(n.App), switched(on, was != on))
		if on {
			return nil
		}
		return watchNode(ctx, func(n admin.Node) { printf(out, "%d runs go on\n", n.Running) }, s, n, wait)
	})
}

// watchNode says how much a node still runs, and waits until it is nothing if it is to. A node that leaves runs nothing.
func watchNode(ctx context.Context, say func(admin.Node), s *admin.Store, n admin.Node, wait bool) error {
	last := -1
	return every(ctx, 200*time.Millisecond, func() (bool, error) {
		now, err := s.Node(ctx, n.App, n.ID)
		if err != nil {
			return false, err
		}
		if now.Running != last {
			say(now)
		}
		last = now.Running
		return now.Running == 0 || !wait, nil
	})
}
