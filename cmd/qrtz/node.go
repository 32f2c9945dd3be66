package main

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/qrtz-go/qrtz/internal/cli/admin"
	"github.com/qrtz-go/qrtz/node"
)

func newNode(g *global) *cobra.Command {
	cmd := group(&cobra.Command{Use: "node", Short: "Nodes: run one; list, start, stop, drain"})
	cmd.AddCommand(newNodeRun(g), newNodeList(g), newNodeStart(g), newNodeStop(g), newNodeDrain(g))
	return cmd
}

type nodeListOptions struct {
	*global
	app    string
	asJSON bool
}

func newNodeList(g *global) *cobra.Command {
	return command(&cobra.Command{Use: "list", Short: "List the nodes"}, &nodeListOptions{global: g})
}

func (o *nodeListOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.app, "app", "", "only nodes of this app")
	jsonFlag(f, &o.asJSON)
}

func (o *nodeListOptions) validate(args []string) error { return noArgs(args) }

func (o *nodeListOptions) run(cmd *cobra.Command) error {
	ctx := cmd.Context()
	return o.onTables(ctx, func(_ *database, s *admin.Store) error {
		nodes, err := s.Nodes(ctx, o.app)
		if err != nil {
			return err
		}
		return printList(cmd.OutOrStdout(), o.asJSON, nodes, "APP NODE HOST STATE JOINED HEARTBEAT RUNNING SKEW_MS PROCESS VERSION", func(n node.Record) []any {
			return []any{n.App, n.ID, n.HostName, nodeState(n), n.Joined, heartbeat(n), n.Running, n.ClockSkew, n.Process, n.Version}
		})
	})
}

func nodeState(n node.Record) string {
	if n.State == "N" && n.StoppedByApp {
		return "off (app)"
	}
	return onOff(n.State)
}

func heartbeat(n node.Record) string {
	if n.HeartbeatAge == nil {
		return ""
	}
	return shortDuration(time.Duration(*n.HeartbeatAge)*time.Millisecond) + " ago"
}

// nodeSwitchOptions are those of start, stop and drain.
type nodeSwitchOptions struct {
	*global
	waitFlags
	id, app   string
	on, drain bool
}

func newNodeStart(g *global) *cobra.Command {
	return command(&cobra.Command{Use: "start ID", Short: "Switch a node on"}, &nodeSwitchOptions{global: g, on: true})
}

func newNodeStop(g *global) *cobra.Command {
	return command(&cobra.Command{
		Use:   "stop ID",
		Short: "Switch a node off: it starts nothing new; running jobs continue",
		Long: `Switch a node off: it starts nothing new; running jobs continue. Its process stays, and is
still off when it is started again, until ` + "`qrtz node start`" + `.`,
	}, &nodeSwitchOptions{global: g})
}

func newNodeDrain(g *global) *cobra.Command {
	return command(&cobra.Command{
		Use:   "drain ID",
		Short: "Switch a node off and say what it still runs; with --wait until that has ended",
		Long: `Switch a node off and say what it still runs; with --wait until that has ended.
Runs that write no row (jobs with HISTORY NONE) are not seen.`,
	}, &nodeSwitchOptions{global: g, drain: true})
}

func (o *nodeSwitchOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.app, "app", "", "the node's app, if several have a node of that id")
	if o.drain {
		o.add(f, "it runs nothing any more")
	}
}

func (o *nodeSwitchOptions) validate(args []string) (err error) {
	o.id, err = oneArg(args, "the id of a node")
	return err
}

func (o *nodeSwitchOptions) run(cmd *cobra.Command) error {
	ctx, cancel := o.within(cmd.Context())
	defer cancel()
	out := cmd.OutOrStdout()
	return o.onTables(ctx, func(d *database, s *admin.Store) error {
		n, err := s.Node(ctx, o.app, o.id)
		if err != nil {
			return err
		}
		var was bool
		err = d.change(ctx, func(db *sqlx.DB, tx *sqlx.Tx, _ time.Time) (err error) {
			was, err = node.NewStore(db, d.prefix, n.App).Switch(ctx, tx, n.ID, o.on)
			return err
		})
		if err != nil {
			return err
		}
		printf(out, "node %s of app %s is %s\n", cell(n.ID), cell(n.App), switched(o.on, was))
		if o.on {
			return nil
		}
		return o.watch(ctx, s, n, func(n node.Record) { printf(out, "%d runs continue\n", n.Running) })
	})
}

// watch says how much a node still runs, and with --wait again until it is nothing. A node that leaves runs nothing.
func (o *nodeSwitchOptions) watch(ctx context.Context, s *admin.Store, n node.Record, say func(node.Record)) error {
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
		return now.Running == 0 || !o.wait, nil
	})
}
