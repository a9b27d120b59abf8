package model_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/skeep-project/skeep/go/arch"
	"github.com/skeep-project/skeep/go/embedded"
	"github.com/skeep-project/skeep/go/exec"
	"github.com/skeep-project/skeep/go/model"
	"github.com/skeep-project/skeep/go/tensor"
)

// renamed is the embedded model as a file of another architecture, whose name is as long as llama.
func renamed(name string) []byte {
	b := bytes.ReplaceAll(embedded.Model(), []byte("llama."), []byte(name+"."))
	value := bytes.Index(b, []byte("general.architecture")) + len("general.architecture")
	return append(b[:value:value], bytes.Replace(b[value:], []byte("llama"), []byte(name), 1)...)
}

func ask(name string) (text string, err error) {
	m, err := model.OpenBytes(context.Background(), name, renamed(name), model.Options{Threads: 1})
	if err != nil {
		return "", err
	}
	defer m.Close()
	for token, err := range m.Generate(context.Background(), "12+30=", model.GenerateOptions{}) {
		if err != nil {
			return "", err
		}
		text += token.Text
	}
	return text, nil
}

// A program adds an architecture whose files have a name of their own, but are computed like those of llama.
func ExampleRegister() {
	f, _ := arch.FamilyOf("llama")
	f.Name = "adder" // general.architecture of its files, and the prefix of its keys
	if err := model.Register(f, nil); err != nil {
		log.Fatal(err)
	}
	text, err := ask("adder")
	fmt.Println(text, err)
	// Output: 42 <nil>
}

// taping notes what a forward function names and keeps.
type taping struct {
	exec.Context
	inputs *[]string
	lasts  *[]int
}

func (t taping) Input(name string, v exec.View) exec.View {
	*t.inputs = append(*t.inputs, name)
	return t.Context.Input(name, v)
}

func (t taping) Last(x exec.View, rows int) exec.View {
	*t.lasts = append(*t.lasts, rows)
	return t.Context.Last(x, rows)
}

// A program adds an architecture with a function of its own. The decoder's tape has a name for everything that
// changes from step to step, the caches of each layer too, and for the rows whose logits are wanted.
func TestRegisteredFunctionsCompute(t *testing.T) {
	f, ok := arch.FamilyOf("llama")
	require.True(t, ok)
	f.Name = "taped"
	var inputs []string
	var lasts []int
	decoder := model.ForwardOf("llama")
	require.NoError(t, model.Register(f, func(c exec.Context, n *model.Network, in model.Inputs) model.View {
		require.Equal(t, "taped", n.Arch().Arch)
		require.False(t, n.Weight(tensor.IDOf(tensor.Output, -1)).IsZero())
		require.True(t, n.Weight(tensor.IDOf(tensor.AttnQKV, 0)).IsZero())
		return decoder(taping{c, &inputs, &lasts}, n, in)
	}))
	text, err := ask("taped")
	require.NoError(t, err)
	require.Equal(t, "42", text)
	layers := len(inputs)/len(lasts)/2 - 1
	require.Positive(t, layers)
	want := []string{"ids", "positions"}
	for i := range layers {
		want = append(want, fmt.Sprintf("kv.%d.k", i), fmt.Sprintf("kv.%d.v", i))
	}
	require.Equal(t, want, inputs[:len(want)])
	require.Equal(t, 1, lasts[0])

	require.ErrorContains(t, model.Register(f, nil), `"taped"`)
	require.ErrorIs(t, model.Register(f, nil), arch.ErrInvalid)
	require.ErrorIs(t, model.Register(arch.Family{}, nil), arch.ErrInvalid)
	f.Name, f.Tensors = "other", []arch.Row{{Role: tensor.AttnQ}}
	require.ErrorIs(t, model.Register(f, nil), arch.ErrInvalid)
	_, ok = arch.FamilyOf("other")
	require.False(t, ok)
}
