package bench

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"
)

// Report is what was measured, and on what.
type Report struct {
	At         time.Time         `json:"at"`
	Conditions map[string]string `json:"conditions"`
	Floor      []Floor           `json:"floor,omitempty"`
	ClaimTimes []ClaimTime       `json:"claim_times,omitempty"`
	Claims     []Claims          `json:"claims,omitempty"`
	Lateness   []Lateness        `json:"lateness,omitempty"`
	Everyday   []Everyday        `json:"everyday,omitempty"`
	Enqueue    []Enqueue         `json:"enqueue,omitempty"`
	Queued     []Queued          `json:"queued,omitempty"`
	Backlog    []Backlog         `json:"backlog,omitempty"`
	Rest       []Rest            `json:"rest,omitempty"`
	Memory     *Memory           `json:"memory,omitempty"`
	Failover   []Failover        `json:"failover,omitempty"`
	Startup    *Startup          `json:"startup,omitempty"`

	Growth      []Growth      `json:"growth,omitempty"`
	NodesAtRest []NodesAtRest `json:"nodes_at_rest,omitempty"`
	PassAtRest  []PassAtRest  `json:"pass_at_rest,omitempty"`
}

const variablesSQL = `
SHOW GLOBAL VARIABLES WHERE VARIABLE_NAME IN ('version', 'version_comment', 'innodb_buffer_pool_size', 'innodb_log_file_size',
 'innodb_redo_log_capacity', 'innodb_flush_log_at_trx_commit', 'innodb_flush_method', 'innodb_doublewrite', 'log_bin')`

// conditions are those of the machine and the settings of the server that matter.
func (s *site) conditions(ctx context.Context) (map[string]string, error) {
	facts := machine()
	variables := map[string]string{}
	if err := readPairs(ctx, s.admin, variablesSQL, variables); err != nil {
		return nil, err
	}
	facts["server"] = variables["version"] + " " + variables["version_comment"] + ", on the same machine, by socket"
	delete(variables, "version")
	delete(variables, "version_comment")
	var settings []string
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		settings = append(settings, strings.ToLower(name)+"="+variables[name])
	}
	facts["settings"] = strings.Join(settings, " ")
	return facts, nil
}
