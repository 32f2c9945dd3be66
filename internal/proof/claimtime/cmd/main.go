// Claimtime measures how long claims take on the empty database of QRTZ_DSN, and prints the times as JSON:
//
//	QRTZ_DSN=… claimtime '[{"fires": 100, "claims": 50}]'
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/qrtz-go/qrtz/internal/proof/claimtime"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "claimtime:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("want the sizes of the claims as JSON, got %d arguments", len(args))
	}
	var sizes []claimtime.Size
	if err := json.Unmarshal([]byte(args[0]), &sizes); err != nil {
		return err
	}
	times, err := claimtime.Measure(ctx, os.Getenv("QRTZ_DSN"), sizes)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(times)
}
