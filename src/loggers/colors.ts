import picocolors from 'picocolors';

/** Functions that colour a text, or leave it as it is. */
export type Colors = ReturnType<typeof picocolors.createColors>;

export const createColors = (enabled: boolean): Colors => picocolors.createColors(enabled);
