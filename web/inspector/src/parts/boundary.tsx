import { Component, type ReactNode } from "react";
import { Failure } from "./basics.js";

interface BoundaryProps {
  /** Another place is another try. */
  readonly place: string;
  readonly children: ReactNode;
}

interface BoundaryState {
  readonly error: Error | undefined;
  readonly place: string;
}

/** Holds a page that fails: the others go on. */
export class Boundary extends Component<BoundaryProps, BoundaryState> {
  override state: BoundaryState = { error: undefined, place: this.props.place };

  static getDerivedStateFromError(error: unknown): Partial<BoundaryState> {
    return { error: error instanceof Error ? error : new Error(String(error)) };
  }

  static getDerivedStateFromProps({ place }: BoundaryProps, state: BoundaryState): BoundaryState {
    return place === state.place ? state : { error: undefined, place };
  }

  override render(): ReactNode {
    const { error } = this.state;
    return error === undefined ? (
      this.props.children
    ) : (
      <Failure
        error={error}
        onRetry={() => {
          this.setState({ error: undefined });
        }}
      />
    );
  }
}
