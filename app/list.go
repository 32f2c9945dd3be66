package app

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/qrtz-go/qrtz/schema"
)

// Record is a row of QRTZ_APP as it is listed, and what belongs to it.
type Record struct {
	Name       string      `db:"APPLICATION" json:"app"`
	State      string      `db:"STATE" json:"state"`
	SwitchedAt schema.Time `db:"SWITCHED_MS" json:"switched_at"`
	CheckedAt  schema.Time `db:"TIME_PRE" json:"checked_at"` // the last pass of the misfire handler
	Nodes      int         `db:"-" json:"nodes"`             // in the cluster
	Jobs       int         `db:"-" json:"jobs"`              // counted up to MaxJobs
}

const (
	// MaxJobs is how far the jobs of an app are counted. One more stands for any number.
	MaxJobs = 1000

	most = 10_000 // apps that are listed
)

const listSQL = `
SELECT A.APPLICATION, A.STATE, CAST(UNIX_TIMESTAMP(A.SWITCHED_AT) * 1000 AS SIGNED) AS SWITCHED_MS, A.TIME_PRE
  FROM QRTZ_APP A ORDER BY A.APPLICATION LIMIT ?`

// countsSQL counts for one app what belongs to it.
var countsSQL = `
SELECT ? AS AT, (SELECT COUNT(*) FROM QRTZ_NODE WHERE APPLICATION = ? AND INSTANCE IS NOT NULL) AS NODES,
       (SELECT COUNT(*) FROM (SELECT 1 FROM QRTZ_JOB WHERE APPLICATION = ? LIMIT ` + strconv.Itoa(MaxJobs+1) + `) C) AS JOBS`

// Names lists the names of all apps.
func Names(ctx context.Context, on schema.On) ([]string, error) {
	apps, err := schema.RowsOf[Record](ctx, on, schema.Query{Text: listSQL, Args: []any{most}})
	if err != nil {
		return nil, fmt.Errorf("read apps: %w", err)
	}
	names := make([]string, len(apps))
	for i, a := range apps {
		names[i] = a.Name
	}
	return names, nil
}

// List lists all apps.
func List(ctx context.Context, on schema.On) ([]Record, error) {
	apps, err := list(ctx, on)
	if err != nil {
		return nil, fmt.Errorf("read apps: %w", err)
	}
	return apps, nil
}

func list(ctx context.Context, on schema.On) ([]Record, error) {
	apps, err := schema.RowsOf[Record](ctx, on, schema.Query{Text: listSQL, Args: []any{most}})
	if err != nil || len(apps) == 0 {
		return []Record{}, err
	}
	at := 0
	for some := range slices.Chunk(apps, schema.ListBranches) {
		counts, err := schema.RowsOf[counts](ctx, on, countsQuery(some))
		if err != nil {
			return nil, err
		}
		for _, c := range counts {
			apps[at].Nodes, apps[at].Jobs = c.Nodes, c.Jobs
			at++
		}
	}
	return apps, nil
}

type counts struct {
	At    int `db:"AT"`
	Nodes int `db:"NODES"`
	Jobs  int `db:"JOBS"`
}

func countsQuery(apps []Record) schema.Query {
	all := make([]schema.Query, len(apps))
	for i, a := range apps {
		all[i] = schema.Query{Text: countsSQL, Args: []any{i, a.Name, a.Name}}
	}
	return schema.Merged(all, "AT", len(apps))
}
